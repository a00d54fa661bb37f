"""What stands in front of Django: the body limit, the time limit, two views at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from config import web
from config.asgi_types import Receive, Scope, Send

Message = MutableMapping[str, Any]


class Django:
    """Stands for Django: answers with the size of the body once ``go`` is set."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.go.set()
        self.busy = asyncio.Event()
        self.working = 0
        self.most = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        self.working += 1
        self.most = max(self.most, self.working)
        if self.working == web.VIEWS_AT_ONCE:
            self.busy.set()
        await self.go.wait()
        self.working -= 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(len(message["body"])).encode()})


class Client:
    """One request whose body arrives in ``chunks``; an empty list never ends."""

    def __init__(self, *chunks: bytes, announced: int | None = None) -> None:
        headers = [] if announced is None else [(b"content-length", str(announced).encode())]
        self.scope: Scope = {"type": "http", "path": "/", "headers": headers}
        self.read_bytes = 0
        self.sent: list[Message] = []
        self._left = list(chunks)

    async def receive(self) -> Message:
        if not self._left:
            await asyncio.Event().wait()
        chunk = self._left.pop(0)
        self.read_bytes += len(chunk)
        return {"type": "http.request", "body": chunk, "more_body": bool(self._left)}

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    async def ask(self, application: web.Web) -> int:
        await application(self.scope, self.receive, self.send)
        return int(self.sent[0]["status"])


async def test_a_body_within_the_limit_arrives_whole() -> None:
    client = Client(b"ab", b"cd")
    assert await client.ask(web.Web(Django())) == 200
    assert client.sent[1]["body"] == b"4"


async def test_a_chunked_body_is_refused_at_the_limit_and_read_no_further() -> None:
    """M5, row 11."""
    client = Client(*[b"x" * 65_536] * 200)
    assert await client.ask(web.Web(Django())) == 413
    assert client.read_bytes <= web.BODY_LIMIT_BYTES + 65_536


async def test_an_announced_size_above_the_limit_is_refused_unread() -> None:
    client = Client(b"x", announced=web.BODY_LIMIT_BYTES + 1)
    assert await client.ask(web.Web(Django())) == 413
    assert client.read_bytes == 0


async def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 07."""
    monkeypatch.setattr(web, "BODY_TIMEOUT_S", 0.01)
    assert await Client().ask(web.Web(Django())) == 408


async def test_slow_bodies_take_no_place_from_others() -> None:
    application = web.Web(Django())
    slow = [asyncio.create_task(Client().ask(application)) for _ in range(10)]
    await asyncio.sleep(0)
    async with asyncio.timeout(1):
        assert await Client(b"").ask(application) == 200
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


async def test_two_views_work_at_a_time_and_all_get_their_turn() -> None:
    django = Django()
    django.go.clear()
    application = web.Web(django)
    calls = [asyncio.create_task(Client(b"").ask(application)) for _ in range(6)]
    await django.busy.wait()
    django.go.set()
    assert await asyncio.gather(*calls) == [200] * 6
    assert django.most == web.VIEWS_AT_ONCE


async def test_a_view_that_is_cancelled_gives_its_place_back() -> None:
    django = Django()
    django.go.clear()
    application = web.Web(django)
    gone = [asyncio.create_task(Client(b"").ask(application)) for _ in range(web.VIEWS_AT_ONCE)]
    await django.busy.wait()
    for task in gone:
        task.cancel()
    await asyncio.gather(*gone, return_exceptions=True)
    django.go.set()
    async with asyncio.timeout(1):
        assert await Client(b"").ask(application) == 200


async def test_a_page_that_finds_no_place_or_hangs_says_503(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows 34, 37: a database that hangs holds pages, not their callers."""
    monkeypatch.setattr(web, "PATIENCE_S", 0.05)
    monkeypatch.setattr(web, "VIEW_TIMEOUT_S", 0.2)
    django = Django()
    django.go.clear()
    application = web.Web(django)
    hung = [asyncio.create_task(Client(b"").ask(application)) for _ in range(web.VIEWS_AT_ONCE)]
    await django.busy.wait()
    assert await Client(b"").ask(application) == 503
    assert await asyncio.gather(*hung) == [503] * web.VIEWS_AT_ONCE
    django.go.set()
    assert await Client(b"").ask(application) == 200


async def test_a_view_whose_thread_cannot_be_cancelled_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Row 34: Django waits for the thread of a view even when it is cancelled."""
    monkeypatch.setattr(web, "PATIENCE_S", 0.02)
    monkeypatch.setattr(web, "VIEW_TIMEOUT_S", 0.05)
    thread_ends = asyncio.Event()

    async def stubborn(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await thread_ends.wait()

    async with asyncio.timeout(1):
        assert await Client(b"").ask(web.Web(stubborn)) == 503
    thread_ends.set()


async def test_a_view_that_is_given_up_hears_that_its_client_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Row 37: Django then closes the database connection of the view's thread; cancelled, it would
    not."""
    monkeypatch.setattr(web, "PATIENCE_S", 0.02)
    monkeypatch.setattr(web, "VIEW_TIMEOUT_S", 0.05)
    heard: list[Message] = []
    ended = asyncio.Event()

    async def listening(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        heard.append(await receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        ended.set()

    client = Client(b"")
    assert await client.ask(web.Web(listening)) == 503
    async with asyncio.timeout(1):
        await ended.wait()
    assert heard == [{"type": "http.disconnect"}]
    assert [message.get("status") for message in client.sent] == [503, None]


async def test_the_api_is_refused_in_its_own_shape() -> None:
    client = Client(b"x", announced=web.BODY_LIMIT_BYTES + 1)
    client.scope["path"] = "/api/v1/tenants"
    assert await client.ask(web.Web(Django())) == 413
    assert json.loads(client.sent[1]["body"])["code"] == "body_too_large"
