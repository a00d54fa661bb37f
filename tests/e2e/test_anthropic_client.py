"""The official ``anthropic`` client, unchanged: in front of a real llama.cpp, of a simulated
replica, and of a scripted one that tells what reached it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anthropic
import pytest
import pytest_asyncio
from anthropic import Anthropic, AsyncAnthropic

from tests.e2e.installation import Installation
from tests.e2e.operator import Operator
from tests.e2e.scripted import scripted
from tests.fakes import message_scripts as scripts
from tests.fakes.llamacpp import LlamaServer
from tests.fakes.scripted_replica import ScriptedReplica
from tests.fakes.scripts import Cut, Script, Send
from tests.servers import wait_until

QUESTION: Any = [{"role": "user", "content": "Tell me about the sea."}]
TOOLS: Any = [
    {
        "name": "weather",
        "description": "Of a place",
        "input_schema": {"type": "object", "properties": {"place": {"type": "string"}}},
    }
]


@pytest.fixture(scope="module")
def client(estate: Installation, operator: Operator) -> Iterator[Anthropic]:
    key = estate.key_of("bursty-bikes")
    with Anthropic(base_url=estate.url, api_key=key, max_retries=0) as it:
        yield it


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replica(operator: Operator) -> AsyncIterator[ScriptedReplica]:
    async with scripted(operator) as it:
        yield it


@pytest_asyncio.fixture(loop_scope="module")
async def asynchronous(estate: Installation) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=estate.url, api_key=estate.api_key, max_retries=0) as it:
        yield it


@pytest.fixture(params=["sim", "tiny"])
def model(request: pytest.FixtureRequest) -> str:
    if request.param == "tiny":
        request.getfixturevalue("tiny")
    return str(request.param)


def test_whole_message_has_text_usage_and_rate_limit_headers(client: Anthropic, model: str) -> None:
    raw = client.messages.with_raw_response.create(
        model=model, messages=QUESTION, max_tokens=12, system="Be brief.", service_tier="auto"
    )
    message = raw.parse()
    assert message.type == "message"
    assert message.role == "assistant"
    (block,) = message.content
    assert block.type == "text"
    assert block.text
    assert message.stop_reason == "max_tokens"
    assert message.usage.output_tokens == 12
    assert message.usage.service_tier == "standard"
    for unit in ("requests", "tokens"):
        words = ("limit", "remaining")
        limit, left = (int(raw.headers[f"anthropic-ratelimit-{unit}-{word}"]) for word in words)
        assert 0 <= left <= limit
        assert raw.headers[f"anthropic-ratelimit-{unit}-reset"].endswith("Z")
    assert message._request_id == raw.headers["request-id"] == raw.headers["x-fairway-call-id"]


def test_streamed_message_becomes_the_same_object(client: Anthropic, model: str) -> None:
    with client.messages.stream(model=model, messages=QUESTION, max_tokens=9) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert text == message.content[0].text  # type: ignore[union-attr]
    assert message.stop_reason == "max_tokens"
    assert message.usage.output_tokens == 9
    assert message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0) > 4


def test_raw_events_come_in_their_order(client: Anthropic, model: str) -> None:
    events = client.messages.create(model=model, messages=QUESTION, max_tokens=3, stream=True)
    kinds = [event.type for event in events]
    assert kinds == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * 3,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_the_ledger_counts_cached_tokens_as_part_of_the_prompt(
    client: Anthropic, model: str, operator: Operator
) -> None:
    long: Any = [{"role": "user", "content": f"{model} the quick brown fox and the dog " * 40}]
    for _ in range(2):
        raw = client.messages.with_raw_response.create(model=model, messages=long, max_tokens=7)
    usage = raw.parse().usage
    record = operator.record_of(raw.headers["x-fairway-call-id"])
    assert usage.cache_read_input_tokens
    assert record["cached_tokens"] == usage.cache_read_input_tokens
    assert record["prompt_tokens"] == usage.input_tokens + usage.cache_read_input_tokens
    assert (record["completion_tokens"], record["endpoint"]) == (7, "messages")
    assert (record["outcome"], record["estimated"]) == ("completed", False)


def test_tokens_are_counted_as_the_answer_counts_them(client: Anthropic, model: str) -> None:
    asked: Any = {"model": model, "messages": QUESTION, "system": "Be brief."}
    raw = client.messages.with_raw_response.count_tokens(**asked)
    usage = client.messages.create(max_tokens=1, **asked).usage
    assert raw.parse().input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)
    assert raw.headers["x-fairway-replica"].startswith(model)


@pytest.mark.asyncio(loop_scope="module")
async def test_tools_and_unknown_fields_reach_the_replica_untouched(
    asynchronous: AsyncAnthropic, replica: ScriptedReplica
) -> None:
    """G11"""
    replica.next(scripts.tool_call())
    before = len(replica.calls)
    vendor = {"deep": [1, 2.5, None, "ü"]}
    use = {"type": "tool_use", "id": "t0", "name": "weather", "input": {"place": "Linz"}}
    result = {"type": "tool_result", "tool_use_id": "t0", "content": "sunny"}
    messages: Any = [
        *QUESTION,
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    ]
    system: Any = [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]
    async with asynchronous.messages.stream(
        model="scripted",
        max_tokens=50,
        messages=messages,
        system=system,
        tools=TOOLS,
        tool_choice={"type": "auto"},
        metadata={"user_id": "u1"},
        extra_body={"vendor": vendor},
    ) as stream:
        message = await stream.get_final_message()
    text, call = message.content
    assert text.type == "text"
    assert call.type == "tool_use"
    assert (call.id, call.name, call.input) == ("toolu_1", "weather", {"place": "Graz"})
    assert message.stop_reason == "tool_use"
    arrival = await replica.arrival(before + 1)
    sent = json.loads(arrival.body)
    assert arrival.path == "/v1/messages"
    assert sent["messages"] == messages
    assert (sent["system"], sent["tools"], sent["vendor"]) == (system, TOOLS, vendor)
    assert sent["metadata"] == {"user_id": "u1"}
    assert sent["stream"] is True
    assert not {"stream_options", "betas"} & set(sent)


@pytest.mark.asyncio(loop_scope="module")
async def test_the_replica_sees_neither_the_key_nor_the_clients_headers(
    estate: Installation, asynchronous: AsyncAnthropic, replica: ScriptedReplica
) -> None:
    """S25"""
    replica.next(scripts.message())
    before = len(replica.calls)
    await asynchronous.messages.create(
        model="scripted", max_tokens=5, messages=QUESTION, extra_headers={"x-tenant": "evil"}
    )
    request = await replica.arrival(before + 1)
    assert estate.api_key not in json.dumps(request.headers) + request.body.decode()
    assert not {"x-tenant", "x-api-key", "authorization"} & set(request.headers)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("end", [(Cut(),), ()], ids=["cut", "clean end"])
async def test_broken_stream_raises_after_what_was_received(
    asynchronous: AsyncAnthropic, replica: ScriptedReplica, end: tuple[Any, ...]
) -> None:
    """G12"""
    begun = (Send(scripts.begun()), Send(scripts.opened()), Send(scripts.said("half")))
    replica.next(Script((*begun, *end)))
    texts: list[str] = []
    stream = await asynchronous.messages.create(
        model="scripted", max_tokens=50, messages=QUESTION, stream=True
    )

    async def read() -> None:
        async for event in stream:
            if event.type == "content_block_delta":
                texts.append(event.delta.text)  # type: ignore[union-attr]

    with pytest.raises(anthropic.APIStatusError, match="upstream_incomplete"):
        await read()
    assert texts == ["half"]


@pytest.mark.asyncio(loop_scope="module")
async def test_many_streams_at_once(asynchronous: AsyncAnthropic) -> None:
    async def one() -> int:
        stream = await asynchronous.messages.create(
            model="sim", messages=QUESTION, max_tokens=6, stream=True
        )
        return sum([event.type == "content_block_delta" async for event in stream])

    assert await asyncio.gather(*(one() for _ in range(30))) == [6] * 30


def test_a_wrong_key_is_an_authentication_error(estate: Installation) -> None:
    for key in ("sk-ant-nothing", "fw-" + "a" * 58, estate.api_key[:-1] + "_"):
        with Anthropic(base_url=estate.url, api_key=key, max_retries=0) as stranger:
            with pytest.raises(anthropic.AuthenticationError) as caught:
                stranger.messages.create(model="sim", messages=QUESTION, max_tokens=5)
            assert caught.value.request_id
            assert key not in str(caught.value)


def test_errors_are_those_of_the_api(client: Anthropic) -> None:
    asked: Any = {"model": "sim", "messages": QUESTION, "max_tokens": 5}
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(**asked | {"model": "claude-9"})
    wrong: dict[str, Any] = {"temperature": 2, "messages": [], "max_tokens": 0, "top_k": -3}
    for field, value in wrong.items():
        with pytest.raises(anthropic.BadRequestError) as caught:
            client.messages.create(**asked, extra_body={field: value})
        told: Any = caught.value.body
        assert told["error"]["type"] == "invalid_request_error"
        assert told["error"]["details"]["param"] == field
        assert told["request_id"] == caught.value.request_id


def test_pool_without_the_endpoint_does_not_serve_it(client: Anthropic, operator: Operator) -> None:
    _pool(operator, client, "chat-only", "chat/completions")
    asked: Any = {"model": "chat-only", "messages": QUESTION}
    with pytest.raises(anthropic.NotFoundError) as caught:
        client.messages.create(max_tokens=5, **asked)
    assert caught.value.response.headers["x-fairway-reason"] == "endpoint_not_served"
    with pytest.raises(anthropic.NotFoundError):
        client.messages.count_tokens(**asked)


@pytest.mark.alone
def test_the_clients_own_retry_waits_as_long_as_it_is_told(
    estate: Installation, operator: Operator
) -> None:
    """G23"""
    operator.post("/tenants", name="Slow Path", slug="slow-path", why="test")
    limit = {"meter": "rpm", "amount": 30, "burst": 1, "klass": "online"}
    operator.put("/tenants/slow-path/limits", **limit)
    secret = operator.post("/tenants/slow-path/keys", label="k")["api_key"]
    asked: Any = {"model": "sim", "messages": QUESTION, "max_tokens": 1}
    with Anthropic(base_url=estate.url, api_key=secret, max_retries=0) as hasty:
        _in_force(operator, operator.version("slow-path"))
        hasty.messages.create(**asked)
        with pytest.raises(anthropic.RateLimitError) as caught:
            hasty.messages.create(**asked)
        told_s = float(caught.value.response.headers["retry-after-ms"]) / 1000
        assert int(caught.value.response.headers["retry-after"]) >= 1
        patient = hasty.with_options(max_retries=2)
        began_s = time.monotonic()
        raw = patient.messages.with_raw_response.create(**asked)
        waited_s = time.monotonic() - began_s
        assert raw.retries_taken == 1
        assert 1.0 <= waited_s <= told_s + 2.0


def test_no_replica_is_an_overload_that_the_client_retries(
    client: Anthropic, operator: Operator
) -> None:
    _pool(operator, client, "empty", "messages")
    with pytest.raises(anthropic.InternalServerError) as caught:
        client.messages.create(model="empty", messages=QUESTION, max_tokens=5)
    assert caught.value.status_code == 529
    assert client._should_retry(caught.value.response)
    assert int(caught.value.response.headers["retry-after"]) >= 1
    count = client.messages.with_raw_response.count_tokens(model="empty", messages=QUESTION)
    assert 3 <= count.parse().input_tokens <= 20
    assert "x-fairway-replica" not in count.headers


def test_a_prompt_beyond_the_servers_context_is_its_own_bad_request(
    client: Anthropic, tiny: LlamaServer, operator: Operator
) -> None:
    """The replica's refusal is relayed and counts against nobody."""
    long: Any = [{"role": "user", "content": "the sea " * 2500}]
    with pytest.raises(anthropic.BadRequestError, match="context") as caught:
        client.messages.create(model="tiny", messages=long, max_tokens=5)
    assert caught.value.response.headers["x-fairway-reason"] == "upstream_refused"
    with pytest.raises(anthropic.BadRequestError, match="context"):
        client.messages.create(model="tiny", messages=long, max_tokens=5, stream=True)
    assert operator.get("/replicas/tiny-1")["live"]["state"] == "serving"


def test_stop_sequence_is_told(client: Anthropic, tiny: LlamaServer) -> None:
    message = client.messages.create(
        model="tiny", messages=QUESTION, max_tokens=200, stop_sequences=["e"]
    )
    assert message.stop_sequence == "e"
    assert message.usage.output_tokens < 200


def _pool(operator: Operator, client: Anthropic, name: str, *endpoints: str) -> None:
    """A pool without replicas, in force."""
    operator.post("/pools", slug=name, endpoints=list(endpoints))
    operator.put(f"/pools/{name}/models", name=name, upstream_model="x")
    wait_until(lambda: name in [each.id for each in client.models.list()], "the model")


def _in_force(operator: Operator, version: int) -> None:
    wait_until(lambda: operator.place.series("fairway_config_version") >= version, "a change")
