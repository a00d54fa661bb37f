"""A whole installation for one test: database, simulated replicas, ``manage.py serve``, all of them
processes of their own, as in production.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
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

    def serve(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Returns when it is ready."""
        with (self.var / "serve.log").open("ab") as log:
            self.serving = subprocess.Popen(
                [sys.executable, "manage.py", "serve", "--port", str(self.port), *arguments],
                cwd=ROOT,
                env=self.env,
                stdout=log,
                stderr=log,
            )
        wait_until(lambda: self.status("/readyz") == 200, "manage.py serve", 60)
        return self.serving

    def status(self, path: str) -> int | None:
        """None where nothing answers."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refusal:
            return refusal.code
        except OSError:
            return None

    def end(self) -> None:
        if self.serving is not None and self.serving.poll() is None:
            self.serving.send_signal(signal.SIGKILL)
            self.serving.wait()


@contextlib.contextmanager
def installed(var: Path, *, sequences: int = 2, **settings: str) -> Iterator[Installation]:
    """One pool ``sim`` of one simulated replica with ``sequences`` slots. Not yet serving."""
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    env |= {"FAIRWAY_VAR_DIR": str(var), "FAIRWAY_DEBUG": "true"}
    env |= {"FAIRWAY_GATEWAY_REPLICA_NETWORKS": "127.0.0.0/8", **settings}
    replica_port = free_port()
    options = f"--port {replica_port} --sequences {sequences} --model {MODEL}".split()
    replica = subprocess.Popen(
        [sys.executable, "manage.py", "simulated_replica", *options],
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
    )
    try:
        facts = _prepared(env, replica_port, sequences)
        assert replica.stdout is not None
        assert replica.stdout.readline().startswith(b"READY")
        installation = Installation(var, free_port(), env, facts)
        try:
            yield installation
        finally:
            installation.end()
    finally:
        replica.kill()
        replica.communicate()


def _prepared(env: dict[str, str], port: int, slots: int) -> dict[str, Any]:
    address = f"http://127.0.0.1:{port}"
    server = {"slug": "sim-1", "kind": "simulated", "base_url": address, "slots": slots}
    names = {"slug": MODEL, "model": MODEL, "upstream_model": MODEL}
    wish = {
        "base_url": "http://127.0.0.1",
        "known": {},
        "pools": [{**names, "context_tokens": 8192, "servers": [server]}],
    }
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
