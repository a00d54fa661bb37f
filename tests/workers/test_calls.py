"""One line over a real socket: what the gateway says becomes an answer, a wait or a failure."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from gateway.internal_token import Claims, verify
from tests.servers import free_port
from workers.calls import Broken, Caller, GatewayCalls, NoCapacity, Outcome
from workers.results import Answer
from workers.services.lines import LeasedLine
from workers.usage import TokenUsage

SECRET = b"x" * 32
CALLER = Caller("acme", "AbCd1234", "batch_1", "/v1/chat/completions")
LINE = LeasedLine(7, "mine", 0, 1, attempt=1, earlier_token="")


@dataclass
class Server:
    """Answers every POST with ``response``; None: it hangs up."""

    response: web.Response | None
    requests: list[web.Request] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        if self.response is None:
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        return self.response


@asynccontextmanager
async def serving(response: web.Response | None) -> AsyncIterator[Server]:
    server = Server(response)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    server.url = f"http://127.0.0.1:{port}"
    try:
        yield server
    finally:
        await runner.cleanup()


async def outcome(response: web.Response | None) -> Outcome:
    async with serving(response) as server:
        async with GatewayCalls(server.url, SECRET, CALLER, 5) as calls:
            return await calls.call(LINE, b"{}")


async def test_the_call_is_made_on_behalf_of_the_key_for_this_line() -> None:
    async with serving(web.json_response({})) as server:
        async with GatewayCalls(server.url, SECRET, CALLER, 5) as calls:
            await calls.call(LINE, b'{"model":"m"}')
        (request,) = server.requests
    token = request.headers["authorization"].removeprefix("Bearer ")
    claims = verify(SECRET, token, time.time())
    assert claims == Claims("acme", "AbCd1234", "batch", "batch_1", 7, claims.expires_at)
    assert server.bodies == [b'{"model":"m"}']


async def test_an_answer_is_kept_with_its_usage() -> None:
    body = {"usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    said = await outcome(web.json_response(body, headers={"x-fairway-call-id": "c1"}))
    assert isinstance(said, Answer)
    assert (said.status, said.request_id, said.is_completed) == (200, "c1", True)
    assert (said.usage.input_tokens, said.usage.output_tokens) == (5, 2)


async def test_usage_of_responses_has_its_own_names() -> None:
    usage = {
        **{"input_tokens": 7, "input_tokens_details": {"cached_tokens": 4}},
        **{"output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 1}},
    }
    said = await outcome(web.json_response({"usage": usage}))
    assert isinstance(said, Answer)
    assert said.usage == TokenUsage(7, 4, 3, 1)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413])
async def test_a_refusal_is_an_answer(status: int) -> None:
    said = await outcome(web.json_response({"error": {}}, status=status))
    assert isinstance(said, Answer)
    assert (said.status, said.is_completed) == (status, False)


@pytest.mark.parametrize(
    ("status", "headers", "wait_s"),
    [
        (429, {"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        (503, {"retry-after": "7"}, 7.0),
        (429, {"retry-after": "soon"}, 2.0),
        (429, {"retry-after": "99999"}, 300.0),
    ],
)
async def test_no_capacity_is_a_wait(status: int, headers: dict[str, str], wait_s: float) -> None:
    said = await outcome(web.json_response({}, status=status, headers=headers))
    assert said == NoCapacity(LINE, wait_s)


@pytest.mark.parametrize("status", [500, 502, 504])
async def test_a_failure_may_be_tried_again(status: int) -> None:
    said = await outcome(web.json_response({}, status=status))
    assert isinstance(said, Broken)
    assert said.answer.status == status


async def test_a_connection_that_breaks_is_a_failure() -> None:
    assert isinstance(await outcome(None), Broken)


async def test_nobody_listening_is_a_wait() -> None:
    async with GatewayCalls(f"http://127.0.0.1:{free_port()}", SECRET, CALLER, 5) as calls:
        assert isinstance(await calls.call(LINE, b"{}"), NoCapacity)


async def test_no_answer_in_time_is_a_failure() -> None:
    hanging = await asyncio.start_server(_say_nothing, "127.0.0.1", 0)
    port = hanging.sockets[0].getsockname()[1]
    async with GatewayCalls(f"http://127.0.0.1:{port}", SECRET, CALLER, 0.2) as calls:
        said = await calls.call(LINE, b"{}")
    hanging.close()
    assert isinstance(said, Broken)
    assert said.answer.status == 504


async def test_an_answer_that_is_not_json_becomes_one_that_is() -> None:
    said = await outcome(web.Response(text="<html>", status=200))
    assert isinstance(said, Answer)
    assert said.body.startswith(b"{")


async def _say_nothing(*_: object) -> None:
    await asyncio.Event().wait()
