"""More callers than the process has files for, and heads that are huge."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.e2e.installation import Installation, installed
from tests.servers import free_port, wait_until

GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def health_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, health_port: int) -> Iterator[Installation]:
    """With 256 files."""
    var = tmp_path_factory.mktemp("installation")
    with installed(var, sequences=64) as it:
        it.serve("--health-port", str(health_port), under=("prlimit", "--nofile=256:256"))
        yield it
        it.end()


def files(place: Installation) -> int:
    assert place.serving is not None
    return len(os.listdir(f"/proc/{place.serving.pid}/fd"))


def resident_bytes(place: Installation) -> int:
    assert place.serving is not None
    with open(f"/proc/{place.serving.pid}/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def health(port: int, path: str) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return int(answer.status)


def answers(place: Installation) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", place.port), timeout=1) as client:
            client.sendall(GET)
            return client.recv(12) == b"HTTP/1.1 200"
    except OSError:
        return False


def test_with_every_place_taken_the_probes_answer_and_places_come_back_at_once(
    place: Installation, health_port: int
) -> None:
    """Row 09. 400 silent connections to a process of 256 files, which has 64 places and 16 from
    which it is said that there are no more."""
    with contextlib.ExitStack() as crowd:
        for _ in range(400):
            crowd.enter_context(socket.create_connection(("127.0.0.1", place.port), timeout=5))
        wait_until(lambda: files(place) > 80, "the crowd", 5)
        assert [health(health_port, path) for path in ("/livez", "/readyz", "/metrics")] == [
            200
        ] * 3
        assert files(place) < 256 - 64
    left_s = time.monotonic()
    wait_until(lambda: answers(place), "an answer")
    assert time.monotonic() - left_s < 2.0
    assert place.series("fairway_accept_pauses_total") >= 1
    assert place.series("fairway_connections_limit") == 64


def test_a_request_beyond_the_last_place_is_told_so(place: Installation) -> None:
    """Row 09: 503 with a reason and Retry-After."""
    with contextlib.ExitStack() as crowd:
        for _ in range(64):
            crowd.enter_context(socket.create_connection(("127.0.0.1", place.port), timeout=5))
        with socket.create_connection(("127.0.0.1", place.port), timeout=5) as client:
            client.sendall(GET)
            head = client.recv(4096).lower()
    assert head.startswith(b"http/1.1 503")
    assert b"x-fairway-reason: gateway_full" in head
    assert b"retry-after: " in head


def test_the_listener_of_the_probes_serves_nothing_else(health_port: int) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        health(health_port, "/v1/models")


@pytest.mark.parametrize("attack", ["8 MB in one line", "50,000 headers"])
def test_huge_heads_cost_no_memory(place: Installation, attack: str) -> None:
    """Row 10: five of them, after one that is not counted, add less than 1 MB in all."""
    line, many = b"X: " + b"a" * 8_000_000, b"\r\n".join(b"X-%d: a" % n for n in range(50_000))
    head = GET[:-2] + (line if attack.startswith("8") else many) + b"\r\n\r\n"
    took_s = [answered_after(place, head)]
    before_bytes = resident_bytes(place)
    took_s += [answered_after(place, head) for _ in range(5)]
    more_bytes = resident_bytes(place) - before_bytes
    print(f"{attack}: refused after {max(took_s):.3f} s at most, {more_bytes / 1e6:+.1f} MB")
    assert more_bytes < 1_000_000


def answered_after(place: Installation, head: bytes) -> float:
    """Seconds until 431 comes, to a client that reads while it sends."""
    sent, began_s = 0, time.monotonic()
    with socket.create_connection(("127.0.0.1", place.port), timeout=5) as client:
        client.setblocking(False)
        while not select.select([client], [client], [], 5)[0]:
            sent += client.send(head[sent : sent + 65536])
        assert client.recv(12) == b"HTTP/1.1 431"
    return time.monotonic() - began_s
