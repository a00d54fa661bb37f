"""The Messages API, asked of the simulated and the real server alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from gateway.core.dispatch.effects import Usage
from gateway.core.errors import UpstreamError
from gateway.core.reasons import Reason
from gateway.replicas.adapters import ADAPTERS
from gateway.replicas.http_upstream import HttpUpstream
from gateway.replicas.simulated_server import SimulatedReplica
from gateway.replicas.simulated_server import running as simulated
from gateway.replicas.upstream import ReplicaTarget
from gateway.simulation.engine import EngineConfig
from gateway.wire import DIALECTS
from gateway.wire.answers.sse import SseSplitter
from gateway.wire.dialect import BodyBounds, Rewrite
from tests.replicas.calls import BOTH, SHORT, chunks, either, target

PATH = "/v1/messages"
DIALECT = DIALECTS[PATH]
LONG = "the quick brown fox and the lazy dog " * 40


@dataclass(frozen=True)
class Answer:
    raw: bytes
    usage: Usage
    message: dict[str, Any]
    content_events: int


@dataclass(frozen=True)
class Subject:
    target: ReplicaTarget
    upstream: HttpUpstream

    async def ask(self, text: str = "hello world", max_tokens: int = 8, **fields: Any) -> Answer:
        """Through the gateway's own reader and aggregator."""
        body = DIALECT.parse(_body(text, max_tokens=max_tokens, **fields), BodyBounds())
        rewrite = Rewrite("m", extras=ADAPTERS[self.target.kind].body_extras)
        splitter, reader = SseSplitter(), DIALECT.reader(body, rewrite)
        aggregator = DIALECT.aggregator(body)
        raw, contents = b"", 0
        sent = DIALECT.upstream_body(body, rewrite)
        async with self.upstream.stream(self.target, PATH, sent, {}, SHORT) as stream:
            async for chunk in chunks(stream):
                raw += chunk
                for frame in splitter.feed(chunk):
                    facts = reader.facts(frame)
                    assert facts.error is None
                    contents += facts.has_content
                    aggregator.feed(frame)
        assert splitter.finish() == []
        assert reader.is_complete()
        assert reader.usage is not None
        return Answer(raw, reader.usage, msgspec.json.decode(aggregator.result()), contents)

    async def count(self, text: str) -> int:
        answer = await self.upstream.post(
            self.target, f"{PATH}/count_tokens", _body(text), timeout_s=5.0, max_bytes=1_000
        )
        assert answer.status == 200
        return int(msgspec.json.decode(answer.body)["input_tokens"])


def _body(text: str, **fields: Any) -> bytes:
    messages = [{"role": "user", "content": text}]
    body = {"model": "m", "messages": messages, "ignore_eos": True, "system": "Be brief."}
    return msgspec.json.encode(body | fields)


@pytest.fixture(params=BOTH)
async def replica(request: pytest.FixtureRequest, upstream: HttpUpstream) -> AsyncIterator[Subject]:
    async with either(request) as to:
        yield Subject(to, upstream)


def test_adapters_say_who_serves_it() -> None:
    serving = {kind for kind, adapter in ADAPTERS.items() if "messages" in adapter.endpoints}
    counting = {
        kind for kind, each in ADAPTERS.items() if "messages/count_tokens" in each.endpoints
    }
    assert serving == counting == {"llamacpp", "simulated", "vllm"}


async def test_message_has_text_reason_and_usage(replica: Subject) -> None:
    answer = await replica.ask(max_tokens=8)
    (block,) = answer.message["content"]
    assert block["text"]
    assert answer.message["stop_reason"] == "max_tokens"
    assert answer.usage.output_tokens == answer.content_events == 8
    assert answer.raw.startswith(b"event: message_start\n")
    assert answer.raw.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')


async def test_repeated_prompt_is_reported_as_cached_and_as_input(replica: Subject) -> None:
    """The API's own input_tokens excludes what was cached."""
    first, second = await replica.ask(LONG), await replica.ask(LONG)
    assert first.usage.input_tokens == second.usage.input_tokens
    assert second.usage.cached_tokens >= 0.9 * second.usage.input_tokens
    told = second.message["usage"]
    assert told["input_tokens"] + told["cache_read_input_tokens"] == second.usage.input_tokens


async def test_counted_tokens_are_those_of_the_answer(replica: Subject) -> None:
    for text in ("hello", LONG):
        assert await replica.count(text) == (await replica.ask(text)).usage.input_tokens


async def test_blocks_of_all_kinds_are_accepted(replica: Subject) -> None:
    tool = {"name": "weather", "description": "x", "input_schema": {"type": "object"}}
    use = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"place": "Graz"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "sunny"}
    marked = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    answer = await replica.ask(
        system=[marked],
        tools=[tool],
        messages=[
            {"role": "user", "content": [marked]},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
        ],
    )
    assert answer.usage.output_tokens == 8


async def test_prompt_that_is_too_long_is_refused_with_the_servers_words(replica: Subject) -> None:
    with pytest.raises(UpstreamError) as caught:
        await replica.ask("word " * 5_000)
    assert (caught.value.reason, caught.value.status) == (Reason.UPSTREAM_REFUSED, 400)
    assert b"context" in (caught.value.upstream_body or b"")


async def test_twenty_streams_one_after_the_other(replica: Subject) -> None:
    """The keep-alive lie: a pooled connection must not fail the next call."""
    for _ in range(20):
        assert (await replica.ask(max_tokens=2)).usage.output_tokens == 2


async def test_eight_streams_at_once(replica: Subject) -> None:
    answers = await asyncio.gather(*(replica.ask(f"{n} hello", 20) for n in range(8)))
    assert [answer.usage.output_tokens for answer in answers] == [20] * 8


async def test_simulated_replica_answers_in_one_piece_when_asked_to(
    upstream: HttpUpstream,
) -> None:
    async with simulated(SimulatedReplica(EngineConfig(), "m", speed=4.0)) as served:
        to = target(served.url, kind="simulated")
        body = _body("hello", max_tokens=5)
        whole = await upstream.post(to, PATH, body, timeout_s=5.0, max_bytes=10_000)
        bad = await upstream.post(to, PATH, _body("x"), timeout_s=5.0, max_bytes=10_000)
        empty = await upstream.post(
            to, f"{PATH}/count_tokens", _body("x", messages=[]), timeout_s=5.0, max_bytes=10_000
        )
    assert msgspec.json.decode(whole.body)["usage"]["output_tokens"] == 5
    for refused in (bad, empty):
        assert refused.status == 400
        assert msgspec.json.decode(refused.body)["error"]["type"] == "invalid_request_error"
