"""``make run``: the whole product on this machine, until Ctrl-C or SIGTERM.

Told top to bottom in ``run``: secrets, Redis, replicas, database, gateway, worker; then what to do
with it. ``PORT``, ``REDIS_URL``, ``DATABASE_URL``, ``REPLICAS="http://host:8000 …"`` come from the
environment. Everything that is kept lies in ``var``.
"""

from __future__ import annotations

import asyncio
import fcntl
import functools
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from config.env import EnvError, read_env
from config.secret_files import file_names, from_files
from deploy import demo, programs
from deploy.children import Children, say
from deploy.errors import CannotRun
from deploy.ports import Ports, is_free
from deploy.redis_server import is_up, own_redis
from deploy.secret_files import secret

ROOT = Path(__file__).resolve().parent.parent
READY_WITHIN_S = 120.0


async def run(var: Path, port: int) -> None:
    ports = Ports(var / "ports.json")
    children = Children(var / "log")
    started = time.monotonic()
    try:
        os.environ.update(environment(var, port))
        _check_environment()
        os.environ["REDIS_URL"] = await _redis(children, var, ports)
        fleet = programs.fleet(ports, os.environ.get("REPLICAS", "").split())
        for replica in fleet.programs:
            await children.start(replica)
        say("preparing the database")
        facts = await demo.prepare(var, fleet.pools, port)
        await _replicas_up(children, fleet)
        gateway, *others = programs.product(port)
        await children.start(gateway)
        await _ready(children, port)
        for program in others:
            await children.start(program)
        demo.write(var, facts)
        print(demo.invitation(facts, time.monotonic() - started), flush=True)
        await asyncio.Event().wait()
    finally:
        say("stopping")
        await children.stop()


def environment(var: Path, port: int) -> dict[str, str]:
    """What every process of the run gets; secrets are made once. Raises CannotRun where one is
    said to lie in a file that cannot be read."""
    _take_secrets_from_files()
    return {
        "SECRET_KEY": os.environ.get("SECRET_KEY") or secret(var / "secret_key"),
        "FAIRWAY_KEY_PEPPER": os.environ.get("FAIRWAY_KEY_PEPPER") or secret(var / "key_pepper"),
        "FAIRWAY_VAR_DIR": str(var),
        "FAIRWAY_GATEWAY_REPLICA_NETWORKS": "127.0.0.0/8",
        "PORT": str(port),
        "DJANGO_SETTINGS_MODULE": "config.settings",
    }


def _take_secrets_from_files() -> None:
    """So that there is one place for each, whatever this run adds."""
    mistakes: list[str] = []
    found = from_files(os.environ, mistakes)
    if mistakes:
        raise CannotRun("\n".join(mistakes))
    os.environ.update(found)
    for name in file_names():
        os.environ.pop(name, None)


def _check_environment() -> None:
    """Here, so that no program fails by a mistake that is not its own."""
    try:
        read_env()
    except EnvError as mistakes:
        raise CannotRun(str(mistakes)) from None


async def _redis(children: Children, var: Path, ports: Ports) -> str:
    if url := os.environ.get("REDIS_URL"):
        if not is_up(url):
            raise CannotRun("Nothing answers at REDIS_URL: start that Redis or unset REDIS_URL.")
        say("using the Redis of REDIS_URL")
        return url
    own = own_redis(var, ports)
    if own is None:
        say("no redis-server on the PATH: stores in memory, batch messages in files")
        return ""
    program, url = own
    await children.start(program)
    await _until(lambda: is_up(url), 20, f"Redis did not start; see {children.log_path('redis')}.")
    say("started a redis-server of its own")
    return url


async def _replicas_up(children: Children, fleet: programs.Fleet) -> None:
    """Those that this run starts, so that the gateway's first probe finds them."""
    for server in fleet.own_servers:
        log = children.log_path(server.slug)
        failure = f"The replica {server.slug} does not answer; see {log}."
        await _until(functools.partial(_answers, f"{server.base_url}/health"), 60, failure)


async def _ready(children: Children, port: int) -> None:
    say("waiting for the gateway")
    log = children.log_path("gateway")
    await _until(
        lambda: _answers(f"http://127.0.0.1:{port}/readyz"),
        READY_WITHIN_S,
        f"The gateway is not ready after {READY_WITHIN_S:.0f} s; its words: {log}.",
    )


async def _until(condition: Callable[[], bool], within_s: float, failure: str) -> None:
    deadline = time.monotonic() + within_s
    while not await asyncio.to_thread(condition):
        if time.monotonic() > deadline:
            raise CannotRun(failure)
        await asyncio.sleep(0.1)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False


async def _until_signal(var: Path, port: int) -> None:
    """A signal cancels the run, wherever it is."""
    work = asyncio.create_task(run(var, port), name="run")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    try:
        await work
    except asyncio.CancelledError:
        say("stopped")


def main() -> None:
    var = Path(os.environ.get("FAIRWAY_VAR_DIR") or ROOT / "var").absolute()
    (var / "log").mkdir(parents=True, exist_ok=True)
    var.chmod(0o700)
    try:
        port = int(os.environ.get("PORT") or 8000)
        if not 1 <= port <= 65_535:
            raise ValueError
    except ValueError:
        sys.exit("PORT must be a number between 1 and 65535.")
    with (var / "run.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.exit(f"It already runs from this directory: see {var / 'run.json'}, or stop it.")
        if not is_free(port):
            sys.exit(f"Port {port} is in use: stop what listens there or PORT={port + 1} make run.")
        try:
            asyncio.run(_until_signal(var, port))
        except CannotRun as reason:
            sys.exit(str(reason))


if __name__ == "__main__":
    main()
