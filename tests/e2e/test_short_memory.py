"""The served product, in each role, while its memory is filled with bodies that never end."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.clients import chat
from tests.e2e.installation import MODEL, Installation, installed
from tests.servers import RedisServer, free_port, wait_until

pytestmark = pytest.mark.alone

MEMORY_BYTES = 220_000_000
LIMITS = ("resident", "address space") if "TEST_ADDRESS_SPACE" in os.environ else ("resident",)
BODY_BYTES = 1_000_000  # the product takes 1 MiB of a call, 2.5 MiB of a page
PACE_S = 0.05  # after each body: memory is read every 0.25 s, and no stage is to be missed
MOST_BODIES = 600
RECOVERED_S = 3.0
CLASSES = ("interactive", "standard", "batch")
TAKEN = {0: [200, 200, 200], 1: [200, 200, 503], 2: [200, 503, 503]}  # by stage


@pytest.fixture(scope="module")
def prepared_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    settings = {"FAIRWAY_GATEWAY_BODY_TIMEOUT_S": "60"}
    with installed(tmp_path_factory.mktemp("memory"), sequences=8, **settings) as place:
        yield place


class Served:
    """One process under a limit. What is asked of its health goes to a port of its own."""

    def __init__(self, place: Installation, limit: str, role: str = "all") -> None:
        self.health = replace(place, port=free_port(), serving=None)
        self.place = replace(place, port=free_port(), serving=None)
        arguments = ("--role", role, "--health-port", str(self.health.port))
        if limit == "resident":
            memory = {"FAIRWAY_GATEWAY_MEMORY_LIMIT_BYTES": str(MEMORY_BYTES)}
            self.place.env = place.env | memory
            self.place.serve(*arguments)
        else:
            self.place.serve(*arguments)
            room = _space_bytes(self.place) + MEMORY_BYTES
            self.place.end()
            self.place.serve(*arguments, under=("prlimit", f"--as={room}:{room}"))

    @property
    def stage(self) -> int:
        return int(self.health.series("fairway_memory_stage"))

    def statuses(self) -> list[int]:
        """Of a call of each class."""
        return [self._status(klass) for klass in CLASSES]

    def _status(self, klass: str) -> int:
        headers = {"authorization": f"Bearer {self.place.api_key}", "x-fairway-priority": klass}
        headers["content-type"] = "application/json"
        body = json.dumps(chat(MODEL, max_tokens=1)).encode()
        url = f"{self.place.url}/v1/chat/completions"
        try:
            request = urllib.request.Request(url, body, headers)
            with urllib.request.urlopen(request, timeout=20) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refusal:
            return refusal.code

    def is_closed(self) -> bool:
        """A connection is not taken."""
        try:
            with urllib.request.urlopen(f"{self.place.url}/livez", timeout=0.3):
                return False
        except TimeoutError:
            return True

    def fill(self, crowd: contextlib.ExitStack, path: str) -> Iterator[int]:
        """Number of bodies so far; each lacks its last byte."""
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {BODY_BYTES + 1}\r\n"
        head += f"Authorization: Bearer {self.place.api_key}\r\n"
        head += "Content-Type: application/json\r\n\r\n"
        for number in range(MOST_BODIES):
            client = socket.create_connection(("127.0.0.1", self.place.port), timeout=0.5)
            crowd.enter_context(client)
            with contextlib.suppress(TimeoutError):  # nobody accepts any more
                client.sendall(head.encode() + b"x" * BODY_BYTES)
            yield number + 1
        raise AssertionError("no stage stops the bodies")


@contextlib.contextmanager
def serving(place: Installation, limit: str, role: str = "all") -> Iterator[Served]:
    served = Served(place, limit, role)
    try:
        yield served
    finally:
        served.place.end()


def _space_bytes(place: Installation) -> int:
    assert place.serving is not None
    pages = int(Path(f"/proc/{place.serving.pid}/statm").read_text().split()[0])
    return pages * resource.getpagesize()


@pytest.mark.parametrize("limit", LIMITS)
def test_callers_are_refused_by_class_and_served_again_when_memory_is_free(
    prepared_place: Installation, limit: str
) -> None:
    """Row 19: 220 MB of resident memory; at full size also an address space (RLIMIT_AS) that has
    220 MB left. The order is exact, the process lives, all are taken again after it."""
    with serving(prepared_place, limit) as served:
        _refuses_by_class(served, limit)


def _refuses_by_class(served: Served, limit: str) -> None:
    seen: dict[int, list[int]] = {0: served.statuses()}
    with contextlib.ExitStack() as crowd:
        bodies = served.fill(crowd, "/v1/chat/completions")
        while (stage := served.stage) < 3:
            count = next(bodies)
            time.sleep(PACE_S)
            if stage not in seen:
                statuses = served.statuses()
                if served.stage == stage:
                    seen[stage] = statuses
        assert served.health.status("/readyz") == 503
    left_s = time.monotonic()
    wait_until(lambda: served.stage == 0, "memory", 20)
    took_s = time.monotonic() - left_s
    print(f"{limit}: {count} bodies of 1 MB; {seen}; all taken again after {took_s:.2f} s")
    assert seen == {stage: TAKEN[stage] for stage in seen}
    assert list(seen) == sorted(seen)
    assert len(seen) > 1  # memory may pass a stage between two readings
    assert served.statuses() == [200, 200, 200]
    assert served.place.serving is not None
    assert served.place.serving.poll() is None
    assert took_s <= RECOVERED_S


def test_a_process_of_pages_takes_no_connection_while_memory_is_short(
    prepared_place: Installation, redis_server: RedisServer
) -> None:
    """Row 19, of the role web."""
    env = prepared_place.env | {"REDIS_URL": redis_server.url}
    with serving(replace(prepared_place, env=env), "resident", "web") as served:
        with contextlib.ExitStack() as crowd:
            bodies = served.fill(crowd, "/accounts/login/")
            while not (served.health.status("/readyz") == 503 and served.is_closed()):
                next(bodies)
        wait_until(lambda: served.health.status("/readyz") == 200, "memory", 20)
        assert served.place.status("/accounts/login/") == 200
