"""A PostgreSQL of the test's own, from the system's package: on a Unix socket and a free port of loopback."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from types import TracebackType

_DEADLINE_S = 60
_SETTINGS = {
    "max_connections": "120",
    "unix_socket_directories": "{folder}",
    "listen_addresses": "127.0.0.1",
    "port": "{port}",
}


class PostgresError(Exception):
    """It is not installed, or did not start or stop; the message holds its last words."""


class Postgres:
    """One server with one empty database `tuner`, gone when the context is left.

    PostgreSQL refuses to run as root, so there it runs as the user `postgres`. What is committed is really on the
    disk, as on a machine that people use.
    """

    def __init__(self) -> None:
        self._bin = _programs()
        self._user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        self.port = free_port()

    @property
    def url(self) -> str:
        """Of the database, over loopback."""
        return f"postgresql+psycopg://{self._user}@127.0.0.1:{self.port}/tuner"

    def __enter__(self) -> Self:
        if os.geteuid() == 0:
            shutil.chown(self.folder, self._user, self._user)
        try:
            self._run("initdb", "-D", str(self._data), "--auth=trust", "--encoding=UTF8", "--locale=C")
            with self._config.open("a", encoding="utf-8") as stream:
                for name, value in _SETTINGS.items():
                    stream.write(f"{name} = '{value.format(folder=self.folder, port=self.port)}'\n")
            self.start()
            self._run("createdb", "-h", str(self.folder), "-p", str(self.port), "tuner")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def start(self) -> None:
        """Start it unless it runs, and wait until it answers."""
        if self._pid.exists():
            return
        self._control("start", "-l", str(self.folder / "log"))

    def with_password(self, user: str, password: str) -> str:
        """Another database, of a user whom only a password lets in.

        Returns:
            Its address, without the password.
        """
        with psycopg.connect(
            host=str(self.folder), port=self.port, user=self._user, dbname="tuner", autocommit=True
        ) as connection:
            connection.execute(
                sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
                    sql.Identifier(user), sql.Literal(password)
                )
            )
            connection.execute(sql.SQL("CREATE DATABASE {0} OWNER {0}").format(sql.Identifier(user)))
            rules = self._data / "pg_hba.conf"
            others = rules.read_text(encoding="utf-8")
            rules.write_text(f"host all {user} 127.0.0.1/32 scram-sha-256\n{others}", encoding="utf-8")
            connection.execute("SELECT pg_reload_conf()")
        return f"postgresql+psycopg://{user}@127.0.0.1:{self.port}/{user}"

    def stop(self) -> None:
        """End all connections, and then it."""
        self._control("stop", "-m", "fast")

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _pid(self) -> Path:
        return self._data / "postmaster.pid"

    @property
    def _config(self) -> Path:
        return self._data / "postgresql.conf"

    def _remove(self) -> None:
        if self._pid.exists():
            self._control("stop", "-m", "immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _control(self, *words: str) -> None:
        self._run("pg_ctl", *words, "-D", str(self._data), "-w", "-t", str(_DEADLINE_S))

    def _run(self, program: str, *words: str) -> None:
        as_user = ["setpriv", f"--reuid={self._user}", f"--regid={self._user}", "--init-groups", "--"]
        argv = [*(as_user if os.geteuid() == 0 else ()), str(self._bin / program), *words]
        with tempfile.TemporaryFile() as said:  # no pipe: a server that goes on would hold it open
            ended = subprocess.run(
                argv, cwd="/", stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
                timeout=_DEADLINE_S + 10, check=False,
            )  # fmt: skip
            if ended.returncode != 0:
                said.seek(0)
                raise PostgresError(f"{program}: {said.read().decode(errors='replace')[-2000:]}")


def _programs() -> Path:
    """Debian keeps them apart by version and off the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[4]))
    on_path = shutil.which("initdb")
    if on_path is not None:
        found.append(Path(on_path).resolve())
    if not found:
        raise PostgresError("PostgreSQL is not installed; on Debian and Ubuntu: apt-get install postgresql")
    return found[-1].parent


def free_port() -> int:
    """Of loopback, that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
