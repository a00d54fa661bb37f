"""The official ``openai`` client at ``responses``, unchanged: in front of simulated replicas, of a
real llama.cpp, and of a scripted one whose stream breaks.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI, OpenAI

from tests.e2e.installation import Installation, Simulated
from tests.e2e.operator import Operator
from tests.e2e.scripted import in_force, until
from tests.fakes.llamacpp import LlamaServer
from tests.fakes.scripted_replica import ScriptedReplica, running
from tests.fakes.scripts import Cut, Script, Send
from tests.servers import wait_until
from tests.wire.responses.streams import WHOLE, opening, text_delta

ENDPOINTS = ["chat/completions", "responses"]
TOOLS: Any = [
    {
        "type": "function",
        "name": "weather",
        "description": "Of a place",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
        "strict": False,
    }
]


def _pool(operator: Operator, pool: str, upstream_model: str, **replica: Any) -> None:
    operator.post("/pools", slug=pool, endpoints=ENDPOINTS, context_tokens=4096)
    operator.put(f"/pools/{pool}/models", name=pool, upstream_model=upstream_model)
    operator.post("/replicas", slug=f"{pool}-1", pool=pool, slots=4, **replica)


@pytest.fixture(scope="module")
def models(operator: Operator, sims: list[Simulated], llama_server: LlamaServer) -> Iterator[None]:
    _pool(operator, "sim-items", "sim", kind="simulated", base_url=sims[1].url)
    _pool(operator, "tiny-items", "tiny", kind="llamacpp", base_url=llama_server.url)
    slugs = ("sim-items-1", "tiny-items-1")
    for slug in slugs:
        wait_until(lambda: operator.get(f"/replicas/{slug}")["live"] is not None, slug)  # noqa: B023
    yield
    for slug in slugs:
        operator.delete(f"/replicas/{slug}")


@pytest.fixture(params=["sim-items", "tiny-items"])
def model(request: pytest.FixtureRequest, models: None) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def client(estate: Installation, operator: Operator) -> Iterator[OpenAI]:
    key = estate.key_of("bursty-bikes")
    with OpenAI(base_url=f"{estate.url}/v1", api_key=key, max_retries=0) as it:
        yield it


def test_a_whole_response_has_text_and_usage(client: OpenAI, model: str) -> None:
    raw = client.responses.with_raw_response.create(
        model=model, input="Tell me about the sea.", instructions="Be kind.", max_output_tokens=12
    )
    told = raw.parse()
    assert told.object == "response"
    assert told.output_text
    assert told.usage is not None
    assert told.usage.output_tokens == 12
    assert told.usage.total_tokens == told.usage.input_tokens + 12
    assert raw.headers["x-fairway-class"] == "standard"
    assert "x-ratelimit-remaining-tokens" in raw.headers


def test_a_stream_has_every_event_up_to_the_last(client: OpenAI, model: str) -> None:
    stream = client.responses.create(
        model=model, input="Tell me about the sea.", max_output_tokens=9, stream=True
    )
    events: list[Any] = list(stream)
    assert events[0].type == "response.created"
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    last = events[-1]
    assert last.type in ("response.completed", "response.incomplete")
    assert last.response.output_text == text


def test_the_ledger_says_what_the_client_was_told(
    client: OpenAI, model: str, operator: Operator
) -> None:
    for stream in (False, True):
        raw = client.responses.with_raw_response.create(
            model=model, input="The sea", max_output_tokens=7, stream=stream
        )
        answer: Any = raw.parse()
        told = list(answer)[-1].response if stream else answer
        record = operator.record_of(raw.headers["x-fairway-call-id"])
        assert (record["prompt_tokens"], record["completion_tokens"]) == (
            told.usage.input_tokens,
            7,
        )
        assert (record["endpoint"], record["outcome"]) == ("responses", "completed")
        assert (record["stream"], record["estimated"]) == (stream, False)


def test_a_conversation_is_sent_whole_again(client: OpenAI, model: str) -> None:
    first = client.responses.create(model=model, input="The sea", max_output_tokens=5)
    talk: Any = [{"role": "user", "content": "The sea"}]
    talk += [item.model_dump(exclude_none=True) for item in first.output]
    talk.append({"role": "user", "content": "And the wind?"})
    second = client.responses.create(model=model, input=talk, max_output_tokens=5)
    assert first.usage is not None
    assert second.usage is not None
    assert second.output_text
    assert second.usage.input_tokens > first.usage.input_tokens


def test_tools_are_offered(client: OpenAI, model: str) -> None:
    told = client.responses.create(
        model=model, input="Hello", tools=TOOLS, parallel_tool_calls=False, max_output_tokens=5
    )
    assert told.output


def test_a_tool_is_called_whole_and_streamed(client: OpenAI, models: None) -> None:
    asked: Any = {
        "model": "sim-items",
        "input": "How is the weather in Graz?",
        "tools": TOOLS,
        "tool_choice": "required",
        "max_output_tokens": 6,
    }
    (call,) = client.responses.create(**asked).output
    assert call.type == "function_call"
    assert call.name == "weather"
    assert json.loads(call.arguments)["text"].startswith("[simulated]")
    with client.responses.stream(**asked) as stream:
        deltas = [e.delta for e in stream if e.type == "response.function_call_arguments.delta"]
    assert "".join(deltas) == call.arguments
    answered: Any = [
        {"role": "user", "content": asked["input"]},
        call.model_dump(exclude_none=True),
        {"type": "function_call_output", "call_id": call.call_id, "output": "rain"},
    ]
    last = client.responses.create(model="sim-items", input=answered, max_output_tokens=6)
    assert last.output_text


def test_the_clients_own_accumulation_agrees(client: OpenAI, model: str) -> None:
    with client.responses.stream(
        model=model, input="The sea", extra_body={"max_output_tokens": 9}
    ) as stream:
        text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
    assert text


@pytest.mark.parametrize(
    "fields",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"background": True},
        {"store": True},
    ],
)
def test_stored_state_is_a_bad_request_error_that_names_it(
    client: OpenAI, models: None, fields: Any
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="sim-items", input="x", **fields)
    assert caught.value.param == next(iter(fields))
    assert "not" in caught.value.message


def test_a_pool_without_the_endpoint_is_a_not_found_error(
    client: OpenAI, operator: Operator
) -> None:
    operator.post("/pools", slug="chats", endpoints=["chat/completions"])
    told = operator.put("/pools/chats/models", name="chats", upstream_model="up")
    assert told["name"] == "chats"
    wait_until(lambda: "chats" in {each.id for each in client.models.list()}, "the model")
    with pytest.raises(openai.NotFoundError) as caught:
        client.responses.create(model="chats", input="x")
    assert caught.value.code == "endpoint_not_served"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replica(operator: Operator) -> AsyncIterator[ScriptedReplica]:
    async with running() as it:
        _pool(operator, "broken-items", "up", kind="vllm", base_url=it.url)
        await until(lambda: any(each.path == "/health" for each in it.received))
        yield it
        removal = operator.delete("/replicas/broken-items-1")
        await in_force(operator.place, removal["config_version"])


@pytest.mark.asyncio(loop_scope="module")
async def test_a_cut_stream_ends_with_an_error_event(
    estate: Installation, replica: ScriptedReplica
) -> None:
    said = [*opening(), text_delta("Grüße", 4)]
    replica.next(Script((*map(Send, said), Cut())))
    async with AsyncOpenAI(
        base_url=f"{estate.url}/v1", api_key=estate.api_key, max_retries=0
    ) as client:
        stream = await client.responses.create(model="broken-items", input="x", stream=True)
        events = [event async for event in stream]
    assert [event.type for event in events[-2:]] == ["response.output_text.delta", "error"]
    last: Any = events[-1]
    assert (last.code, last.sequence_number) == ("upstream_incomplete", 5)
    assert last.message


@pytest.mark.asyncio(loop_scope="module")
async def test_bytes_and_unknown_fields_pass(
    estate: Installation, replica: ScriptedReplica
) -> None:
    """G11"""
    before = len(replica.calls)
    replica.next(Script(tuple(map(Send, WHOLE))))
    async with AsyncOpenAI(base_url=f"{estate.url}/v1", api_key=estate.api_key) as client:
        async with client.responses.with_streaming_response.create(
            model="broken-items",
            input="x",
            tools=TOOLS,
            stream=True,
            extra_body={"vendor": {"deep": [1, 2.5, None, "ü"]}},
        ) as response:
            heard = await response.read()
    assert heard == b"".join(WHOLE)
    sent = json.loads((await replica.arrival(before + 1)).body)
    assert (sent["tools"], sent["vendor"]) == (TOOLS, {"deep": [1, 2.5, None, "ü"]})
    assert (sent["store"], sent["stream"], sent["model"]) == (False, True, "up")
    assert estate.api_key not in json.dumps(sent)
