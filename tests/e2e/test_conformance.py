"""The conformance suite: green before this gateway in front of simulated and real replicas, telling
of a bare llama.cpp where it deviates, and red in every check before a server that is wrong."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tests.conformance.__main__ import DIALECTS
from tests.conformance.checks import Result, results
from tests.conformance.server import Server
from tests.e2e.installation import Installation
from tests.e2e.operator import Operator
from tests.fakes.llamacpp import LlamaServer
from tests.servers import free_port

OF_TEXT = tuple(name for name in DIALECTS if name != "embeddings")


async def checked(url: str, key: str, model: str, *dialects: str) -> list[Result]:
    async with Server(url, key, model) as server:
        chosen = [DIALECTS[name] for name in dialects or DIALECTS]
        return [each async for each in results(server, chosen)]


def deviations(told: list[Result]) -> list[Result]:
    return [each for each in told if each.deviation or not each.served]


@pytest.mark.parametrize("model", ["sim", "tiny"])
async def test_this_gateway_conforms(
    estate: Installation, operator: Operator, tiny: LlamaServer, model: str
) -> None:
    told = await checked(estate.url, estate.key_of("bursty-bikes"), model, *OF_TEXT)
    assert deviations(told) == []
    assert {each.dialect for each in told} == set(OF_TEXT)


async def test_its_vectors_conform(estate: Installation, vectors: str) -> None:
    told = await checked(estate.url, estate.key_of("acme"), vectors, "embeddings")
    assert deviations(told) == []
    assert told


async def test_of_a_bare_llamacpp_it_tells_the_deviations(llama_server: LlamaServer) -> None:
    told = await checked(llama_server.url, "", "tiny", "chat", "completions", "responses")
    fine = {(each.dialect, each.title) for each in told} - {
        (each.dialect, each.title) for each in deviations(told)
    }
    assert ("chat", "a whole answer has its shape") in fine
    assert ("chat", "an unknown model is 404 also of a stream") not in fine  # takes any name
    assert ("completions", "a stream has usage at its end when asked") not in fine
    assert ("responses", "events are numbered") not in fine


async def test_every_check_can_fail() -> None:
    async def broken(request: web.Request) -> web.Response:
        return web.json_response({"error": "boom"}, status=500)

    async with listening(broken) as url:
        told = await checked(url, "k", "m")
    assert [each.title for each in told if not each.deviation] == []
    assert len(told) == sum(len(each.checks) for each in DIALECTS.values())


async def test_a_dialect_that_is_not_served_is_told_once() -> None:
    async def nothing(request: web.Request) -> web.Response:
        raise web.HTTPNotFound

    async with listening(nothing) as url:
        told = await checked(url, "k", "m")
    assert [(each.dialect, each.served) for each in told] == [(name, False) for name in DIALECTS]


async def test_the_program_says_when_nobody_answers() -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.conformance", "--base-url", url, "chat"),
        stderr=asyncio.subprocess.PIPE,
    )
    _, error = await program.communicate()
    assert program.returncode == 2
    assert f"{url} does not answer" in error.decode()


@asynccontextmanager
async def listening(handler: object) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)  # type: ignore[arg-type]
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
