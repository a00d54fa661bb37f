"""Which Redis does a local run use? The one in REDIS_URL, else one of its own, else none."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from urllib.parse import urlsplit

from deploy.children import Program
from deploy.ports import Ports
from deploy.secret_files import secret, write_private


def own_redis(var: Path, ports: Ports) -> tuple[Program, str] | None:
    """The program and its URL; None where no redis-server is on the PATH."""
    executable = shutil.which("redis-server")
    if executable is None:
        return None
    directory = var / "redis"
    directory.mkdir(exist_ok=True)
    port, password = ports.block("redis"), secret(var / "redis_password")
    lines = (
        f"port {port}",
        "bind 127.0.0.1",
        f"dir {directory}",
        f"requirepass {password}",
        "appendonly yes",
        "appendfsync everysec",
        "maxmemory-policy noeviction",
    )
    write_private(directory / "redis.conf", "\n".join(lines) + "\n")
    program = Program("redis", (executable, str(directory / "redis.conf")))
    return program, f"redis://:{password}@127.0.0.1:{port}/0"


def is_up(url: str) -> bool:
    """Whether something answers in Redis' protocol; an error about a password is an answer."""
    parts = urlsplit(url)
    try:
        with _connect(parts.scheme, parts.path, parts.hostname, parts.port) as client:
            client.sendall(b"PING\r\n")
            return client.recv(1) in (b"+", b"-")
    except OSError:
        return False


def _connect(scheme: str, path: str, host: str | None, port: int | None) -> socket.socket:
    if scheme == "unix":
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(1)
        client.connect(path)
        return client
    return socket.create_connection((host or "127.0.0.1", port or 6379), timeout=1)
