"""Real servers that tests start for themselves: redis-server and PostgreSQL, on free ports.

Each returns None where the program is not installed; the fixtures in ``conftest.py`` skip then.
PostgreSQL refuses to run as root: then it runs as the user ``postgres``.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

PORTS = range(10_000, 32_000)  # below those that the system gives to outgoing connections


def free_port() -> int:
    """For a server that starts later: neither a client nor another process's test, of which many
    run at once, is likely to take it meanwhile."""
    while True:
        port = secrets.choice(PORTS)  # not `random`: hypothesis gives each process the same seed
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def wait_until(ready: Callable[[], bool], what: str, within_s: float = 20.0) -> None:
    """Polls every 20 ms. Raises TimeoutError that names ``what``."""
    deadline = time.monotonic() + within_s
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come up in {within_s:.0f} s")
        time.sleep(0.02)


@dataclass
class RedisServer:
    """A redis-server of its own. Tests may freeze and kill it; ``start`` brings it back."""

    directory: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        options = f"--port {self.port} --bind 127.0.0.1 --appendonly yes --appendfsync everysec"
        command = ["redis-server", *options.split(), "--save", "", "--dir", str(self.directory)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_until(self.answers, "redis-server")

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as client:
                client.sendall(b"PING\r\n")
                return client.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    def flush(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as client:
            client.sendall(b"FLUSHALL\r\n")
            client.recv(16)

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)


@contextlib.contextmanager
def redis_server() -> Iterator[RedisServer | None]:
    if shutil.which("redis-server") is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="fairway-redis-") as directory:
        server = RedisServer(Path(directory), free_port())
        server.start()
        try:
            yield server
        finally:
            server.thaw()
            server.kill()


@dataclass
class PostgresServer:
    """A cluster of its own in ``directory``; the database ``fairway`` exists."""

    programs: Path
    directory: Path
    port: int

    @property
    def url(self) -> str:
        return f"postgres://postgres@127.0.0.1:{self.port}/fairway"

    def create(self) -> None:
        self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "-N")
        self.start()
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "fairway")

    def database(self, name: str) -> str:
        """URL of another database, made here."""
        port = str(self.port)
        self._run("createdb", "-h", "127.0.0.1", "-p", port, "-U", "postgres", name)
        return f"postgres://postgres@127.0.0.1:{port}/{name}"

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c fsync=off"
        options += f" -c unix_socket_directories={self.directory} -c max_connections=60"
        log = str(self.directory / "log")
        self._run("pg_ctl", "-D", self._data, "-l", log, "-o", options, "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        """``immediate`` is the crash."""
        self._run("pg_ctl", "-D", self._data, "-m", mode, "-w", "stop")

    def restart(self) -> None:
        """Crash and recovery."""
        self.stop()
        self.start()

    def freeze(self) -> None:
        """The postmaster and its children stop; connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        postmaster = int((self.directory / "data" / "postmaster.pid").read_text().split()[0])
        listing = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text()
        for process in (postmaster, *map(int, listing.split())):
            with contextlib.suppress(ProcessLookupError):  # a child may end at any moment
                os.kill(process, number)

    @property
    def _data(self) -> str:
        return str(self.directory / "data")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self.programs / program), *arguments]
        if os.geteuid() == 0:
            command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *command]
        subprocess.run(
            command, check=True, cwd=self.directory, stdout=subprocess.DEVNULL, timeout=60
        )


def postgres_programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


@contextlib.contextmanager
def postgres_server() -> Iterator[PostgresServer | None]:
    programs = postgres_programs()
    if programs is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="fairway-postgres-") as directory:
        if os.geteuid() == 0:
            shutil.chown(directory, "postgres", "postgres")
        server = PostgresServer(programs, Path(directory), free_port())
        server.create()
        try:
            yield server
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):  # a test may have stopped it
                server.stop()


def chromium() -> str | None:
    """Path of a Chromium that Playwright can drive."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)
