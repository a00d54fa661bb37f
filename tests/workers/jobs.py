"""A whole installation with a Celery worker and beat, as processes, and the real client."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openai import OpenAI

from tests.e2e.installation import ROOT, Installation, installed
from tests.servers import wait_until
from tests.workers.batches import jsonl

CELERY = (sys.executable, "-m", "celery", "-A", "config.celery")
QUICK = {
    "FAIRWAY_WORKERS_LEASE_S": "4",
    "FAIRWAY_WORKERS_HEARTBEAT_S": "1",
    "FAIRWAY_WORKERS_CHUNK_S": "5",
    "FAIRWAY_WORKERS_LINES_AT_ONCE": "8",
}


@dataclass
class Jobs:
    """``client`` has the demo key of the first tenant, ``stranger`` that of the second."""

    place: Installation
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def client(self) -> OpenAI:
        return self._client(0)

    @property
    def stranger(self) -> OpenAI:
        return self._client(1)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """In a process group of its own."""
        with (self.place.var / f"{arguments[0]}.log").open("ab") as log:
            process = subprocess.Popen(
                [*CELERY, *arguments, f"--loglevel={self.place.env.get('LOG_LEVEL', 'INFO')}"],
                cwd=ROOT,
                env=self.place.env,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def start_worker(self) -> subprocess.Popen[bytes]:
        return self.start("worker", "--concurrency=2")

    def start_beat(self) -> subprocess.Popen[bytes]:
        return self.start("beat", f"--pidfile={self.place.var / 'beat.pid'}")

    def end(self) -> None:
        for process in self.processes:
            kill_group(process)

    def _client(self, number: int) -> OpenAI:
        key = self.place.facts["tenants"][number]["api_key"]
        return OpenAI(api_key=key, base_url=f"{self.place.url}/v1", max_retries=0)


@contextlib.contextmanager
def jobs(var: Path, *, sequences: int = 8, **settings: str) -> Iterator[Jobs]:
    with installed(var, sequences=sequences, **(QUICK | settings)) as place:
        place.env["FAIRWAY_WORKERS_GATEWAY_URL"] = place.url
        place.serve()
        running = Jobs(place)
        try:
            yield running
        finally:
            running.end()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """kill -9 of the worker and its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def submitted(client: OpenAI, requests: list[dict[str, Any]]) -> Any:
    """The batch, just created."""
    file = client.files.create(file=("lines.jsonl", jsonl(requests)), purpose="batch")
    return client.batches.create(
        input_file_id=file.id, endpoint=requests[0]["url"], completion_window="24h"
    )


def until(
    client: OpenAI, batch_id: str, ready: Callable[[Any], bool], within_s: float = 90.0
) -> Any:
    """The batch, once it is ready."""
    found: list[Any] = []

    def look() -> bool:
        time.sleep(0.1)
        found.append(client.batches.retrieve(batch_id))
        return ready(found[-1])

    wait_until(look, f"batch {batch_id}", within_s)
    return found[-1]


def finished(client: OpenAI, batch_id: str, within_s: float = 90.0) -> Any:
    final = {"completed", "failed", "cancelled", "expired"}
    return until(client, batch_id, lambda batch: batch.status in final, within_s)


def results(client: OpenAI, file_id: str | None) -> list[dict[str, Any]]:
    if file_id is None:
        return []
    return [json.loads(line) for line in client.files.content(file_id).read().splitlines()]


def counted(lines: list[dict[str, Any]]) -> Counter[str]:
    return Counter(line["custom_id"] for line in lines)
