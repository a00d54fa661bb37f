"""What every kind of replica must do, asked of the fake, the simulated and the real server
alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.core.errors import ConnectionLost, UpstreamError
from gateway.core.reasons import Reason
from gateway.replicas import telemetry
from gateway.replicas.adapters import ADAPTERS, Adapter
from gateway.replicas.http_upstream import HttpUpstream
from gateway.replicas.simulated_server import SimulatedReplica
from gateway.replicas.simulated_server import running as simulated
from gateway.replicas.upstream import ReplicaTarget
from gateway.simulation.engine import EngineConfig
from gateway.wire.headers import to_replica
from tests.fakes.llamacpp import LlamaServer, serving
from tests.fakes.model import MODELS, FakeModel
from tests.fakes.scripted_replica import running as scripted
from tests.fakes.scripts import metrics
from tests.replicas.calls import (
    BOTH,
    CHAT,
    SHORT,
    chat_body,
    chunks,
    either,
    events,
    read,
    target,
    text_of,
    usage_of,
)

LONG = "the quick brown fox and the lazy dog " * 40


@dataclass(frozen=True)
class Subject:
    target: ReplicaTarget
    adapter: Adapter
    upstream: HttpUpstream

    async def chat(self, text: str = "hello world", max_tokens: int = 8, **fields: object) -> bytes:
        body = chat_body(text, max_tokens, ignore_eos=True, **fields)
        return await read(self.upstream, self.target, body)

    async def running(self) -> int | None:
        assert self.adapter.metrics_path is not None
        page = await self.upstream.get(
            self.target, self.adapter.metrics_path, timeout_s=5.0, max_bytes=1_000_000
        )
        return telemetry.read(page.body, self.adapter.metrics, slug="r1", at_s=0.0).running


def subject(url: str, kind: str, upstream: HttpUpstream) -> Subject:
    return Subject(target(url, kind=kind), ADAPTERS[kind], upstream)


@pytest.fixture(params=["fake", *BOTH])
async def replica(request: pytest.FixtureRequest, upstream: HttpUpstream) -> AsyncIterator[Subject]:
    if request.param == "fake":
        async with scripted(FakeModel()) as fake:
            fake.routes["/v1/models"] = MODELS
            fake.routes["/metrics"] = lambda: metrics(running=fake.open_calls)
            yield subject(fake.url, "vllm", upstream)
    else:
        async with either(request) as to:
            yield Subject(to, ADAPTERS[to.kind], upstream)


async def test_health_answers(replica: Subject) -> None:
    answer = await replica.upstream.get(
        replica.target, replica.adapter.health_path, timeout_s=3.0, max_bytes=10_000
    )
    assert answer.status == 200


async def test_models_are_listed(replica: Subject) -> None:
    answer = await replica.upstream.get(
        replica.target, replica.adapter.models_path, timeout_s=3.0, max_bytes=100_000
    )
    assert b'"object":"list"' in answer.body.replace(b" ", b"")


async def test_telemetry_names_are_known(replica: Subject) -> None:
    assert await replica.running() == 0


async def test_stream_has_role_tokens_finish_usage_and_done(replica: Subject) -> None:
    raw = await replica.chat(max_tokens=8)
    told = events(raw)
    assert told[0]["choices"][0]["delta"]["role"] == "assistant"
    assert not told[0]["choices"][0]["delta"]["content"]
    finishes = [event["choices"][0]["finish_reason"] for event in told if event["choices"]]
    assert finishes[-1] == "length"
    assert finishes[:-1] == [None] * (len(finishes) - 1)
    assert text_of(raw)
    assert usage_of(raw)["completion_tokens"] == 8
    assert raw.endswith(b"data: [DONE]\n\n") is replica.adapter.done_marker


async def test_one_token_is_one_token(replica: Subject) -> None:
    raw = await replica.chat(max_tokens=1)
    assert usage_of(raw)["completion_tokens"] == 1
    assert text_of(raw)


async def test_usage_comes_only_when_asked_for(replica: Subject) -> None:
    """G8"""
    raw = await replica.chat(stream_options=None)
    assert not [event for event in events(raw) if event.get("usage")]


async def test_repeated_prompt_is_reported_as_cached(replica: Subject) -> None:
    first = usage_of(await replica.chat(LONG))
    second = usage_of(await replica.chat(LONG))
    assert second["prompt_tokens"] == first["prompt_tokens"]
    assert second["prompt_tokens_details"]["cached_tokens"] >= 0.9 * second["prompt_tokens"]


async def test_unknown_fields_are_accepted(replica: Subject) -> None:
    """G11"""
    assert text_of(await replica.chat(x_vendor={"deep": [1]}))


async def test_prompt_that_is_too_long_is_refused_with_the_servers_words(replica: Subject) -> None:
    with pytest.raises(UpstreamError) as caught:
        await replica.chat("word " * 5_000)
    assert (caught.value.reason, caught.value.status) == (Reason.UPSTREAM_REFUSED, 400)
    assert not caught.value.blames_replica
    assert b'"error"' in (caught.value.upstream_body or b"")


async def test_nonsense_is_refused(replica: Subject) -> None:
    for body in (b"{", b'{"stream": true}'):
        with pytest.raises(UpstreamError) as caught:
            await read(replica.upstream, replica.target, body)
        assert caught.value.status == 400


async def test_twenty_streams_one_after_the_other(replica: Subject) -> None:
    """The keep-alive lie: a pooled connection must not fail the next call."""
    for _ in range(20):
        assert usage_of(await replica.chat(max_tokens=2))["completion_tokens"] == 2


async def test_eight_streams_at_once(replica: Subject) -> None:
    answers = await asyncio.gather(*(replica.chat(f"{n} hello", 20) for n in range(8)))
    assert [usage_of(raw)["completion_tokens"] for raw in answers] == [20] * 8


async def test_left_stream_ends_at_the_replica_within_a_second(replica: Subject) -> None:
    """G5, R7"""
    body = chat_body("go on", 2_000, ignore_eos=True)
    async with replica.upstream.stream(replica.target, CHAT, body, {}, SHORT) as stream:
        await anext(aiter(chunks(stream)))
    async with asyncio.timeout(1.0):
        while await replica.running():
            await asyncio.sleep(0.01)


def test_resumable_streams_cannot_be_asked_for() -> None:
    """``X-Conversation-Id`` would let a llama.cpp generation survive its client."""
    sent = to_replica({"x-conversation-id": "1", "x-request-id": "abc"}, "call-1")
    assert "x-conversation-id" not in {name.lower() for name in sent}


async def test_llamacpp_counts_every_token_in_the_stream(
    upstream: HttpUpstream, llama_server: LlamaServer
) -> None:
    one = subject(llama_server.url, "llamacpp", upstream)
    extras: dict[str, Any] = dict(one.adapter.body_extras)
    raw = await one.chat(max_tokens=6, **extras)
    counts = [event["timings"]["predicted_n"] for event in events(raw) if event.get("timings")]
    assert counts[:6] == [1, 2, 3, 4, 5, 6]


async def test_killed_llamacpp_cuts_the_stream(upstream: HttpUpstream, llama_model: Path) -> None:
    """Row 39, row 43"""
    with serving(llama_model, slots=1) as server:
        to = target(server.url, kind="llamacpp")
        body = chat_body("go on", 3_000)
        async with upstream.stream(to, CHAT, body, {}, SHORT) as stream:
            reads = aiter(chunks(stream))
            await anext(reads)
            server.kill()
            with pytest.raises(ConnectionLost) as caught:
                async for _ in reads:
                    pass
    assert caught.value.reason is Reason.UPSTREAM_INCOMPLETE


async def test_salt_separates_the_cache_of_tenants(upstream: HttpUpstream) -> None:
    """R33, for the kinds that understand it."""
    async with simulated(SimulatedReplica(EngineConfig(), "m", speed=4.0)) as served:
        one = subject(served.url, "simulated", upstream)
        await one.chat(LONG, cache_salt="alice")
        other = usage_of(await one.chat(LONG, cache_salt="bob"))
        same = usage_of(await one.chat(LONG, cache_salt="alice"))
    assert other["prompt_tokens_details"]["cached_tokens"] == 0
    assert same["prompt_tokens_details"]["cached_tokens"] > 0


async def test_simulated_replica_that_is_full_says_so(upstream: HttpUpstream) -> None:
    config = EngineConfig(sequences=1, queue_limit=1)
    async with simulated(SimulatedReplica(config, "m")) as served:
        one = subject(served.url, "simulated", upstream)
        running = asyncio.create_task(one.chat(max_tokens=500))
        while await one.running() == 0:
            await asyncio.sleep(0.01)
        with pytest.raises(UpstreamError, match="full"):
            await one.chat()
        running.cancel()
