"""What every kind of replica must do at ``responses``, asked of the simulated and the real one, and
read as the gateway reads it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.core.errors import UpstreamError
from gateway.core.reasons import Reason
from gateway.replicas.adapters import ADAPTERS
from gateway.replicas.http_upstream import HttpUpstream
from gateway.replicas.simulated_server import SimulatedReplica
from gateway.replicas.simulated_server import running as simulated
from gateway.replicas.upstream import ReplicaTarget
from gateway.simulation.engine import EngineConfig
from gateway.wire.dialect import BodyBounds, FrameFacts, Rewrite, StreamReader
from gateway.wire.headers import to_replica
from gateway.wire.responses.dialect import RESPONSES
from tests.replicas.calls import BOTH, SHORT, chunks, either, target

LONG = "the quick brown fox and the lazy dog " * 40
TOOL = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}


@dataclass(frozen=True)
class Heard:
    """One answer: its events, what they meant, and the body of a caller without a stream."""

    events: list[dict[str, Any]]
    facts: list[FrameFacts]
    reader: StreamReader
    whole: dict[str, Any]

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]

    def joined(self, kind: str) -> str:
        return "".join(event["delta"] for event in self.events if event["type"] == kind)


@dataclass(frozen=True)
class Subject:
    target: ReplicaTarget
    upstream: HttpUpstream

    async def ask(self, given: Any = "Tell me about the sea.", **fields: Any) -> Heard:
        body = {"model": "m", "input": given, "ignore_eos": True, **fields}
        parsed = RESPONSES.parse(json.dumps(body).encode(), BodyBounds())
        rewrite = Rewrite("m", extras=ADAPTERS[self.target.kind].body_extras)
        sent = RESPONSES.upstream_body(parsed, rewrite)
        reader, aggregator = RESPONSES.reader(parsed, rewrite), RESPONSES.aggregator(parsed)
        splitter, headers = RESPONSES.splitter(), to_replica({}, "call", RESPONSES.accept)
        frames = []
        to = self.target, "/v1/responses", sent, headers, SHORT
        async with self.upstream.stream(*to) as stream:
            async for chunk in chunks(stream):
                frames += splitter.feed(chunk)
        frames += splitter.finish()
        facts = [reader.facts(frame) for frame in frames]
        for frame in frames:
            aggregator.feed(frame)
        return Heard(
            [json.loads(frame.data) for frame in frames if frame.data],
            facts,
            reader,
            json.loads(aggregator.result()),
        )


@pytest.fixture(params=BOTH)
async def subject(request: pytest.FixtureRequest, upstream: HttpUpstream) -> AsyncIterator[Subject]:
    async with either(request) as to:
        yield Subject(to, upstream)


async def test_a_stream_begins_has_deltas_and_ends_with_its_usage(subject: Subject) -> None:
    heard = await subject.ask(max_output_tokens=8)
    assert heard.kinds[:2] == ["response.created", "response.in_progress"]
    assert heard.kinds[-1] in ("response.completed", "response.incomplete")
    assert heard.kinds.count("response.output_text.delta") == 8
    assert heard.reader.is_complete()
    assert heard.reader.usage is not None
    assert heard.reader.usage.output_tokens == heard.reader.tokens == 8
    assert [facts.error for facts in heard.facts if facts.error] == []
    first = next(n for n, facts in enumerate(heard.facts) if facts.has_content)
    assert heard.kinds[first] == "response.output_text.delta"
    assert [facts.tokens for facts in heard.facts if facts.has_content] == list(range(1, 9))


async def test_the_last_event_holds_the_whole_answer(subject: Subject) -> None:
    heard = await subject.ask(max_output_tokens=8)
    (item,) = heard.whole["output"]
    text = heard.joined("response.output_text.delta")
    assert (item["type"], item["role"], item["content"][0]["text"]) == (
        "message",
        "assistant",
        text,
    )
    assert heard.whole["usage"]["output_tokens"] == 8
    assert heard.whole["object"] == "response"


async def test_a_repeated_prompt_is_reported_as_cached(subject: Subject) -> None:
    first, second = [await subject.ask(LONG, max_output_tokens=2) for _ in range(2)]
    assert first.reader.usage is not None
    assert second.reader.usage is not None
    assert second.reader.usage.input_tokens == first.reader.usage.input_tokens
    assert second.reader.usage.cached_tokens >= 0.9 * second.reader.usage.input_tokens


async def test_instructions_items_and_tools_make_the_prompt(subject: Subject) -> None:
    plain = await subject.ask("hello", max_output_tokens=1)
    said = [{"type": "output_text", "text": "hey there", "annotations": []}]
    talk = [
        {"role": "user", "content": "hello"},
        {"type": "message", "role": "assistant", "status": "completed", "content": said},
        {"role": "user", "content": [{"type": "input_text", "text": "and now?"}]},
    ]
    longer = await subject.ask(talk, instructions="be kind", tools=[TOOL], max_output_tokens=1)
    assert plain.reader.usage is not None
    assert longer.reader.usage is not None
    assert longer.reader.usage.input_tokens > plain.reader.usage.input_tokens


async def test_a_prompt_that_is_too_long_is_refused_with_the_servers_words(
    subject: Subject,
) -> None:
    with pytest.raises(UpstreamError) as caught:
        await subject.ask("word " * 5_000)
    assert (caught.value.reason, caught.value.status) == (Reason.UPSTREAM_REFUSED, 400)


async def test_a_simulated_replica_calls_the_tool_that_must_be_called(
    upstream: HttpUpstream,
) -> None:
    async with simulated(SimulatedReplica(EngineConfig(), "m", speed=4.0)) as served:
        subject = Subject(target(served.url, kind="simulated"), upstream)
        heard = await subject.ask(tools=[TOOL], tool_choice="required", max_output_tokens=5)
        other = await subject.ask(tools=[TOOL], max_output_tokens=5)
    arguments = heard.joined("response.function_call_arguments.delta")
    (item,) = heard.whole["output"]
    assert (item["type"], item["name"], item["arguments"]) == (
        "function_call",
        "weather",
        arguments,
    )
    assert "[simulated]" in json.loads(arguments)["text"]
    assert [event["sequence_number"] for event in heard.events] == list(range(len(heard.events)))
    assert heard.facts[-1].next_event == len(heard.events)
    assert other.whole["output"][0]["type"] == "message"
    assert other.whole["status"] == "incomplete"
