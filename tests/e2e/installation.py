"""A whole installation for tests: database, replicas, ``manage.py serve``, all of them processes of
their own, as in production.

``prepared`` makes the database with the pools that are wished, ``simulated`` a process of one
simulated replica, which starts meanwhile; ``installed`` is both in the usual form.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.servers import free_port, wait_until

ROOT = Path(__file__).resolve().parents[2]
MODEL = "sim"
KEPT = ("PATH", "HOME", "LANG", "VIRTUAL_ENV", "TMPDIR")


@dataclass
class Installation:
    """``facts`` is what ``var/run.json`` would hold."""

    var: Path
    port: int
    env: dict[str, str]
    facts: dict[str, Any]
    serving: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def api_key(self) -> str:
        return str(self.facts["tenants"][0]["api_key"])

    def key_of(self, tenant: str) -> str:
        return next(str(one["api_key"]) for one in self.facts["tenants"] if one["slug"] == tenant)

    def serve(self, *arguments: str, under: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        """Returns when it is ready. ``under``: a program and its arguments that runs it."""
        with (self.var / "serve.log").open("ab") as log:
            self.serving = subprocess.Popen(
                [
                    *under,
                    sys.executable,
                    "manage.py",
                    "serve",
                    "--port",
                    str(self.port),
                    *arguments,
                ],
                cwd=ROOT,
                env=self.env,
                stdout=log,
                stderr=log,
            )
        wait_until(self._ready_or_ended, "manage.py serve", 60)
        assert self.serving.poll() is None, (self.var / "serve.log").read_text()[-2000:]
        return self.serving

    def _ready_or_ended(self) -> bool:
        assert self.serving is not None
        return self.serving.poll() is not None or self.status("/readyz") == 200

    def status(self, path: str) -> int | None:
        """None where nothing answers."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refusal:
            return refusal.code
        except OSError:
            return None

    def series(self, name: str, **labels: str) -> float:
        """Sum of the samples of a metric that have these labels."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        found = [line for line in lines if line.startswith((f"{name}{{", f"{name} "))]
        return sum(
            float(line.rsplit(" ", 1)[1]) for line in found if all(each in line for each in wanted)
        )

    def degraded(self) -> dict[str, str]:
        with urllib.request.urlopen(f"{self.url}/readyz", timeout=10) as answer:
            parts: dict[str, str] = json.load(answer)["degraded"]
        return parts

    def logged(self, event: str, **facts: str) -> list[datetime]:
        """When the server wrote log lines of this event with these facts."""
        text = (self.var / "serve.log").read_text()
        lines = text[: text.rfind("\n") + 1].splitlines()  # the last one may still be written
        records = [json.loads(line) for line in lines if line.startswith("{") and event in line]
        wanted = {"event": event, **facts}
        return [
            datetime.fromisoformat(record["timestamp"])
            for record in records
            if wanted.items() <= record.items()
        ]

    def end(self) -> None:
        if self.serving is not None and self.serving.poll() is None:
            self.serving.send_signal(signal.SIGKILL)
            self.serving.wait()


@dataclass
class Simulated:
    """One simulated replica in its process. ``start`` returns when it answers."""

    port: int
    options: tuple[str, ...]
    env: dict[str, str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def launch(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "simulated_replica", *self.options],
            cwd=ROOT,
            env=self.env,
            stdout=subprocess.PIPE,
        )

    def wait(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith(b"READY")

    def start(self) -> None:
        self.launch()
        self.wait()

    def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            self.process.communicate()

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)


@contextlib.contextmanager
def simulated(
    var: Path, *, count: int = 1, sequences: int = 2, model: str = MODEL
) -> Iterator[list[Simulated]]:
    """``count`` processes of one replica each. Until ``wait`` they may still be starting."""
    env = _environment(var)
    replicas = []
    for _ in range(count):
        port = free_port()
        options = f"--port {port} --sequences {sequences} --model {model}".split()
        replicas.append(Simulated(port, tuple(options), env))
    with contextlib.ExitStack() as stack:
        for replica in replicas:
            stack.callback(replica.kill)  # each, though another's may fail
            replica.launch()
        yield replicas


@contextlib.contextmanager
def prepared(var: Path, pools: Sequence[dict[str, Any]], **settings: str) -> Iterator[Installation]:
    """An installation with these pools, not yet serving."""
    env = _environment(var) | settings
    known: dict[str, Any] = {}
    if "DATABASE_URL" not in settings:
        template, known = _template()
        shutil.copytree(template, var, dirs_exist_ok=True)
    installation = Installation(var, free_port(), env, _facts(env, pools, known))
    try:
        yield installation
    finally:
        installation.end()


@contextlib.contextmanager
def installed(var: Path, *, sequences: int = 2, **settings: str) -> Iterator[Installation]:
    """One pool ``sim`` of one simulated replica with ``sequences`` slots. Not yet serving."""
    with simulated(var, sequences=sequences) as replicas:
        with prepared(var, [pool(MODEL, replicas, sequences)], **settings) as installation:
            replicas[0].wait()
            yield installation


def pool(slug: str, replicas: Sequence[Simulated], slots: int) -> dict[str, Any]:
    """A pool of simulated replicas, for ``prepared``. It and its model are named ``slug``."""
    servers = [
        {"slug": f"{slug}-{n}", "kind": "simulated", "base_url": each.url, "slots": slots}
        for n, each in enumerate(replicas, 1)
    ]
    names = {"slug": slug, "model": slug, "upstream_model": slug}
    return {**names, "context_tokens": 8192, "servers": servers}


def _environment(var: Path) -> dict[str, str]:
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    env |= {"FAIRWAY_VAR_DIR": str(var), "FAIRWAY_DEBUG": "true"}
    return env | {"FAIRWAY_GATEWAY_REPLICA_NETWORKS": "127.0.0.0/8"}


@functools.cache
def _template() -> tuple[Path, dict[str, Any]]:
    """A migrated database with the demo's tenants, made once: hashing passwords takes seconds."""
    var = Path(tempfile.mkdtemp(prefix="fairway-template-"))
    atexit.register(shutil.rmtree, var, ignore_errors=True)
    return var, _facts(_environment(var), [], {})


def _facts(
    env: dict[str, str], pools: Sequence[dict[str, Any]], known: dict[str, Any]
) -> dict[str, Any]:
    wish = {"base_url": "http://127.0.0.1", "known": known, "pools": list(pools)}
    done = subprocess.run(
        [sys.executable, "manage.py", "prepare_demo"],
        cwd=ROOT,
        env=env,
        input=json.dumps(wish).encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts
