"""The conformance suite: green before this gateway in front of simulated and real replicas, telling
of a bare llama.cpp where it deviates, and red in every check before a server that is wrong."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tests.conformance.__main__ import DIALECTS
from tests.conformance.checks import Result, results
from tests.conformance.server import Server
from tests.e2e.installation import ROOT, Installation
from tests.e2e.operator import Operator
from tests.fakes.llamacpp import LlamaServer
from tests.servers import free_port

Handler = Callable[[web.Request], Awaitable[web.Response]]
# Checks to which any success is fine.
LOOK_AT_THE_STATUS = {
    "content may be blocks",
    "content may be parts",
    "fields that are not known pass",
    "the key may come as x api key",
}
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


async def test_of_a_bare_llamacpp_it_tells_the_deviations(
    llama_server: LlamaServer, embedding_server: LlamaServer
) -> None:
    """Those of the documentation, no more and no fewer."""
    told = await checked(llama_server.url, "", "tiny", *OF_TEXT)
    told += await checked(embedding_server.url, "", "tiny", "embeddings")
    page = (ROOT / "docs" / "conformance.md").read_text()
    rows = [tuple(map(str.strip, line.split("|")[1:3])) for line in page.splitlines()]
    documented = {row for row in rows if row and row[0] in DIALECTS}
    assert {(each.dialect, each.title) for each in deviations(told)} == documented
    assert documented < {(each.dialect, each.title) for each in told}


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
    status, _, error = await program(url, "chat")
    assert status == 2
    assert f"{url} does not answer" in error


@pytest.mark.parametrize(
    ("given", "answer", "words"),
    [
        ((), web.json_response({"error": "no"}, status=401), "the key is refused with 401"),
        (("--model", "m"), web.json_response({}, status=403), "the key is refused with 403"),
        (("--key", "k\n"), web.json_response({"data": [{"id": "m"}]}), "a newline"),
        ((), web.json_response({"data": []}), "--model"),
        ((), web.json_response(None), "--model"),
        ((), web.json_response({"data": {}}), "--model"),
        ((), web.Response(text="<html>", content_type="text/html"), "--model"),
        ((), web.Response(text="data: {}\n\n", content_type="text/event-stream"), "--model"),
        (
            ("--model", "nosuch", "chat"),
            web.json_response({"error": {"code": "model_not_found"}}, status=404),
            "the model nosuch does not exist",
        ),
        (
            ("--model", "nosuch", "messages"),
            web.json_response({"error": {"message": "model: nosuch", "code": 404}}, status=404),
            "the model nosuch does not exist",
        ),
    ],
)
async def test_the_program_says_in_a_line_why_it_cannot_ask(
    given: tuple[str, ...], answer: web.Response, words: str
) -> None:
    async with listening(always(answer)) as url:
        status, told, error = await program(url, *given)
    assert status == 2
    assert words in error
    assert "checks" not in told
    assert error.count("\n") == 1


async def test_the_program_takes_no_url_without_a_scheme() -> None:
    status, told, error = await program("127.0.0.1:8000", "chat")
    assert (status, told, error.count("\n")) == (2, "", 1)
    assert "http://" in error


async def test_that_nothing_is_served_that_was_named_is_no_success() -> None:
    other = {"error": {"message": "m does not serve /v1/chat/completions", "code": "other"}}
    for answer in (web.Response(status=404), web.json_response(other, status=404)):
        async with listening(always(answer)) as url:
            status, told, _ = await program(url, "--model", "m", "chat")
        assert status == 1
        assert "absent" in told


@pytest.mark.parametrize(
    "answer",
    [
        web.json_response({"data": []}),
        web.json_response({"error": ["no"]}),
        web.json_response(None),
        web.Response(body=b"data: \xff\n\n", content_type="text/event-stream"),
    ],
    ids=["empty list", "other error", "null", "no UTF-8"],
)
async def test_an_answer_of_any_shape_deviates(answer: web.Response) -> None:
    async with listening(always(answer)) as url:
        told = await checked(url, "k", "m")
    fine = {each.title for each in told if not each.deviation}
    assert fine <= {*LOOK_AT_THE_STATUS}
    assert len(told) == sum(len(each.checks) for each in DIALECTS.values())


async def test_a_key_or_model_that_one_dialect_takes_is_a_good_one() -> None:
    """Another dialect may refuse it for reasons of its own."""

    async def some(request: web.Request) -> web.Response:
        if request.path == "/v1/chat/completions":
            return web.json_response({})
        if request.path == "/v1/messages":
            return web.json_response({}, status=401)
        return web.json_response({"error": {"message": "m is of another kind"}}, status=404)

    async with listening(some) as url:
        told = await checked(url, "k", "m", "messages", "embeddings", "chat")
    assert {each.dialect for each in told if each.served} == {"messages", "chat"}


def always(answer: web.Response) -> Handler:
    async def told(request: web.Request) -> web.Response:
        return web.Response(
            body=answer.body, status=answer.status, content_type=answer.content_type
        )

    return told


async def program(url: str, *given: str) -> tuple[int | None, str, str]:
    """Its exit status, what it printed and what it said of an error."""
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.conformance", "--base-url", url, *given),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    told, error = await running.communicate()
    return running.returncode, told.decode(), error.decode()


@asynccontextmanager
async def listening(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
