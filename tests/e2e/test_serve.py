"""``manage.py serve`` as a process: what it answers, and how it stops."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import aiohttp
import pytest

from tests.e2e.installation import MODEL, Installation, installed
from tests.servers import wait_until


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    var = tmp_path_factory.mktemp("installation")
    with installed(var, FAIRWAY_GATEWAY_DRAIN_GRACE_S="20", FAIRWAY_TCP_USER_TIMEOUT_S="3") as it:
        yield it


@pytest.fixture
def serving(place: Installation) -> Iterator[Installation]:
    place.serve()
    yield place
    place.end()


@dataclass
class Stream:
    """One streamed chat, read to its end."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    began: asyncio.Event = field(default_factory=asyncio.Event)
    ended_s: float = 0.0

    async def run(self, session: aiohttp.ClientSession, place: Installation, tokens: int) -> None:
        chat = [{"role": "user", "content": "hi"}]
        body = {"model": MODEL, "stream": True, "max_tokens": tokens, "messages": chat}
        headers = {"authorization": f"Bearer {place.api_key}"}
        url = f"{place.url}/v1/chat/completions"
        async with session.post(url, json=body, headers=headers) as answer:
            self.status = answer.status
            self.headers = {name.lower(): value for name, value in answer.headers.items()}
            async for chunk in answer.content.iter_any():
                self.began.set()
                self.body += chunk
        self.ended_s = time.monotonic()


@pytest.mark.alone
async def test_sigterm_lets_streams_end_refuses_the_queue_at_once_and_exits_when_idle(
    serving: Installation,
) -> None:
    """R28, row 17."""
    assert serving.serving is not None
    async with aiohttp.ClientSession() as session:
        running, queued = [Stream() for _ in range(2)], [Stream() for _ in range(3)]
        tasks = [asyncio.create_task(one.run(session, serving, 800)) for one in running]
        await asyncio.gather(*(one.began.wait() for one in running))
        tasks += [asyncio.create_task(one.run(session, serving, 800)) for one in queued]
        await _queued(session, serving, 3)
        told_s = time.monotonic()
        serving.serving.send_signal(signal.SIGTERM)
        await asyncio.gather(*tasks[2:])
        assert [one.status for one in queued] == [503] * 3
        assert all(int(one.headers["retry-after"]) >= 1 for one in queued)
        assert max(one.ended_s for one in queued) - told_s < 1.0
        assert serving.status("/readyz") == 503
        await asyncio.gather(*tasks)
    assert all(one.body.rstrip().endswith(b"data: [DONE]") for one in running)
    status = await asyncio.to_thread(serving.serving.wait, 10)
    assert status == 0
    assert time.monotonic() - max(one.ended_s for one in running) < 3.0


@pytest.mark.alone
def test_an_idle_process_stops_at_once(serving: Installation) -> None:
    assert serving.serving is not None
    told_s = time.monotonic()
    serving.serving.send_signal(signal.SIGTERM)
    assert serving.serving.wait(10) == 0
    assert time.monotonic() - told_s < 2.5


def test_pages_and_probes_answer_with_the_headers_of_a_careful_site(serving: Installation) -> None:
    """S18."""
    with socket.create_connection(("127.0.0.1", serving.port), timeout=30) as client:
        client.sendall(
            b"GET /accounts/login/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        answer = b""
        while chunk := client.recv(65536):
            answer += chunk
    head = answer.split(b"\r\n\r\n")[0].lower()
    assert b" 200 " in head.splitlines()[0]
    for header in (b"content-security-policy", b"x-frame-options", b"permissions-policy"):
        assert header in head
    assert b"unsafe-inline" not in head
    assert b"server:" not in head
    assert [serving.status(path) for path in ("/livez", "/readyz", "/metrics")] == [200] * 3


def test_a_large_body_to_a_page_is_refused_and_leaves_nothing_on_disk(
    serving: Installation,
) -> None:
    """M5, row 11."""
    before = sorted(serving.var.rglob("*"))
    with socket.create_connection(("127.0.0.1", serving.port), timeout=30) as client:
        head = b"POST /accounts/login/ HTTP/1.1\r\nHost: localhost\r\n"
        client.sendall(head + b"Content-Length: 300000000\r\n\r\n")
        assert b" 413 " in client.recv(65536).splitlines()[0]
    assert sorted(serving.var.rglob("*")) == before


def test_an_unknown_host_is_refused(serving: Installation) -> None:
    with socket.create_connection(("127.0.0.1", serving.port), timeout=30) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert b" 400 " in answer.splitlines()[0]
    assert b"ALLOWED_HOSTS" in answer


def test_one_log_line_per_record_and_no_secret_in_it(serving: Installation) -> None:
    """S26: neither prompt nor key."""
    asyncio.run(_one_call(serving))
    log = serving.var / "serve.log"
    wait_until(lambda: "completed" in log.read_text(), "the line of the call")
    serving.end()
    text = log.read_text()
    records = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert any(record.get("outcome") == "completed" for record in records)
    assert serving.api_key not in text
    assert "canary" not in text


async def _one_call(place: Installation) -> None:
    async with aiohttp.ClientSession() as session:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "canary"}]}
        headers = {"authorization": f"Bearer {place.api_key}"}
        url = f"{place.url}/v1/chat/completions"
        async with session.post(url, json=body, headers=headers) as answer:
            assert answer.status == 200


async def _queued(session: aiohttp.ClientSession, place: Installation, calls: int) -> None:
    """Returns once so many wait in the queue, by the gateway's own account."""
    async with asyncio.timeout(30):
        while True:
            async with session.get(f"{place.url}/metrics") as answer:
                lines = (await answer.text()).splitlines()
            depth = [line for line in lines if line.startswith("fairway_queue_depth{")]
            if sum(float(line.rsplit(" ", 1)[1]) for line in depth) == calls:
                return
            await asyncio.sleep(0.05)
