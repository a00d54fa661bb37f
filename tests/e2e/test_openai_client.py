"""The official ``openai`` client, unchanged: in front of a real llama.cpp, of a simulated replica,
and of a scripted one that tells what reached it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI, OpenAI

from tests.e2e.installation import Installation
from tests.e2e.operator import Operator
from tests.e2e.scripted import scripted
from tests.fakes.llamacpp import LlamaServer
from tests.fakes.scripted_replica import ScriptedReplica
from tests.servers import wait_until

QUESTION: Any = [{"role": "user", "content": "Tell me about the sea."}]
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Of a place",
            "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
            "strict": True,
        },
    }
]


@pytest.fixture(scope="module")
def client(estate: Installation, operator: Operator) -> Iterator[OpenAI]:
    with OpenAI(
        base_url=f"{estate.url}/v1", api_key=estate.key_of("bursty-bikes"), max_retries=0
    ) as it:
        yield it


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replica(operator: Operator) -> AsyncIterator[ScriptedReplica]:
    async with scripted(operator) as it:
        yield it


@pytest.fixture(params=["sim", "tiny"])
def model(request: pytest.FixtureRequest) -> str:
    if request.param == "tiny":
        request.getfixturevalue("tiny")
    return str(request.param)


def test_lists_the_models_its_key_may_use(client: OpenAI) -> None:
    assert {"sim", "tiny", "scripted"} <= {each.id for each in client.models.list()}
    assert client.models.retrieve("sim").id == "sim"


def test_whole_chat_has_text_usage_and_rate_limit_headers(client: OpenAI, model: str) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model=model, messages=QUESTION, max_tokens=12
    )
    chat = raw.parse()
    assert chat.object == "chat.completion"
    assert chat.choices[0].message.content
    assert chat.choices[0].finish_reason == "length"
    assert chat.usage is not None
    assert chat.usage.completion_tokens == 12
    assert chat.usage.total_tokens == chat.usage.prompt_tokens + 12
    for unit in ("requests", "tokens"):
        limit, left = (int(raw.headers[f"x-ratelimit-{w}-{unit}"]) for w in ("limit", "remaining"))
        assert 0 <= left <= limit
        assert raw.headers[f"x-ratelimit-reset-{unit}"].endswith("s")
    assert raw.headers["x-fairway-class"] == "standard"
    assert raw.headers["x-request-id"] == raw.headers["x-fairway-call-id"]


def test_streamed_chat_has_no_usage_that_nobody_asked_for(client: OpenAI, model: str) -> None:
    """G8"""
    stream = client.chat.completions.create(
        model=model, messages=QUESTION, max_tokens=9, stream=True
    )
    chunks = list(stream)
    assert all(chunk.usage is None and chunk.choices for chunk in chunks)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert chunks[-1].choices[0].finish_reason == "length"


def test_streamed_chat_ends_with_the_usage_it_asked_for(client: OpenAI, model: str) -> None:
    """G8"""
    stream = client.chat.completions.create(
        model=model,
        messages=QUESTION,
        max_tokens=9,
        stream=True,
        stream_options={"include_usage": True},
    )
    *chunks, last = stream
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == 9
    assert chunks[-1].choices[0].finish_reason == "length"


def test_the_ledger_says_what_the_client_was_told(
    client: OpenAI, model: str, operator: Operator
) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model=model, messages=QUESTION, max_tokens=7
    )
    usage = raw.parse().usage
    record = operator.record_of(raw.headers["x-fairway-call-id"])
    assert usage is not None
    assert (record["prompt_tokens"], record["completion_tokens"]) == (usage.prompt_tokens, 7)
    assert (record["outcome"], record["estimated"]) == ("completed", False)


def test_completions_whole_and_streamed(client: OpenAI, model: str) -> None:
    whole = client.completions.create(model=model, prompt="The sea", max_tokens=5)
    assert whole.object == "text_completion"
    assert whole.choices[0].text
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 5
    stream = client.completions.create(model=model, prompt="The sea", max_tokens=5, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream)


def test_several_prompts_have_a_choice_each(client: OpenAI, tiny: LlamaServer) -> None:
    """Of llama.cpp; the simulated replica makes one choice."""
    prompts = ["The sea", "A mountain"]
    whole = client.completions.create(model="tiny", prompt=prompts, max_tokens=3)
    assert [choice.index for choice in whole.choices] == [0, 1]
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 6
    stream = client.completions.create(
        model="tiny",
        prompt=prompts,
        max_tokens=3,
        stream=True,
        stream_options={"include_usage": True},
    )
    *chunks, last = stream
    assert {choice.index for chunk in chunks for choice in chunk.choices} == {0, 1}
    assert (last.choices, last.usage and last.usage.completion_tokens) == ([], 6)
    assert not any(chunk.usage for chunk in chunks)


@pytest.mark.asyncio(loop_scope="module")
async def test_tools_and_unknown_fields_reach_the_replica_untouched(
    estate: Installation, replica: ScriptedReplica
) -> None:
    """G11"""
    before = len(replica.calls)
    async with AsyncOpenAI(base_url=f"{estate.url}/v1", api_key=estate.api_key) as client:
        stream = await client.chat.completions.create(
            model="scripted",
            messages=[*QUESTION, {"role": "user", "content": "x", "name": "é"}],
            tools=TOOLS,
            tool_choice="auto",
            response_format={"type": "json_object"},
            stream=True,
            extra_body={"guided_choice": ["a", "b"], "vendor": {"deep": [1, 2.5, None, "ü"]}},
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text == "t0 t1 t2 "
    sent = json.loads((await replica.arrival(before + 1)).body)
    assert sent["tools"] == TOOLS
    assert sent["tool_choice"] == "auto"
    assert sent["response_format"] == {"type": "json_object"}
    assert sent["guided_choice"] == ["a", "b"]
    assert sent["vendor"] == {"deep": [1, 2.5, None, "ü"]}
    assert sent["messages"][1] == {"role": "user", "content": "x", "name": "é"}
    assert sent["stream"] is True
    assert sent["stream_options"]["include_usage"] is True


@pytest.mark.asyncio(loop_scope="module")
async def test_the_replica_sees_neither_the_key_nor_the_clients_headers(
    estate: Installation, replica: ScriptedReplica
) -> None:
    """S25"""
    before = len(replica.calls)
    async with AsyncOpenAI(
        base_url=f"{estate.url}/v1",
        api_key=estate.api_key,
        default_headers={"x-forwarded-for": "10.9.8.7", "cookie": "a=b", "x-tenant": "evil"},
    ) as client:
        await client.chat.completions.create(model="scripted", messages=QUESTION)
    request = await replica.arrival(before + 1)
    seen = json.dumps(request.headers) + request.body.decode()
    assert estate.api_key not in seen
    assert not {"x-forwarded-for", "cookie", "x-tenant", "authorization"} & set(request.headers)


@pytest.mark.asyncio(loop_scope="module")
async def test_asynchronous_client_runs_many_streams_at_once(
    estate: Installation, operator: Operator
) -> None:
    async with AsyncOpenAI(base_url=f"{estate.url}/v1", api_key=estate.api_key) as client:

        async def one() -> int:
            stream = await client.chat.completions.create(
                model="sim", messages=QUESTION, max_tokens=6, stream=True
            )
            return sum([bool(chunk.choices[0].delta.content) async for chunk in stream])

        assert await asyncio.gather(*(one() for _ in range(30))) == [6] * 30


def test_a_wrong_key_is_an_authentication_error(estate: Installation) -> None:
    for key in ("sk-nothing", "fw-" + "a" * 58, estate.api_key[:-1] + "_"):
        with OpenAI(base_url=f"{estate.url}/v1", api_key=key) as stranger:
            with pytest.raises(openai.AuthenticationError) as caught:
                stranger.chat.completions.create(model="sim", messages=QUESTION)
            assert caught.value.code == "invalid_api_key"
            assert key not in str(caught.value)


def test_an_unknown_model_is_a_not_found_error(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="gpt-9", messages=QUESTION)
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-9")
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="sim", input="x")


def test_a_bad_field_is_a_bad_request_error_that_names_it(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="sim", messages=QUESTION, temperature=9)
    assert caught.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="sim", messages=[])
    assert caught.value.param == "messages"
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model="sim", messages=QUESTION, extra_body={"api_base": "http://evil"}
        )
    assert caught.value.param == "api_base"


def test_a_key_without_the_model_or_the_scope_is_denied(
    estate: Installation, operator: Operator
) -> None:
    for terms, code in (
        ({"models": ["tiny"]}, "model_not_allowed"),
        ({"scopes": ["usage"]}, "not_permitted"),
        ({"allowed_networks": ["192.0.2.0/24"]}, "not_permitted"),
    ):
        secret = operator.post("/tenants/acme/keys", label="narrow", **terms)["api_key"]
        with OpenAI(base_url=f"{estate.url}/v1", api_key=secret, max_retries=5) as narrow:
            _in_force(operator, "acme")
            with pytest.raises(openai.PermissionDeniedError) as caught:
                narrow.chat.completions.create(model="sim", messages=QUESTION)
        assert caught.value.code == code


@pytest.mark.alone
def test_the_clients_own_retry_waits_as_long_as_it_is_told(
    estate: Installation, operator: Operator
) -> None:
    """G23"""
    operator.post("/tenants", name="Slow Lane", slug="slow-lane", why="test")
    limit = {"meter": "rpm", "amount": 30, "burst": 1, "klass": "online"}
    operator.put("/tenants/slow-lane/limits", **limit)
    secret = operator.post("/tenants/slow-lane/keys", label="k")["api_key"]
    with OpenAI(base_url=f"{estate.url}/v1", api_key=secret, max_retries=0) as hasty:
        _in_force(operator, "slow-lane")
        hasty.chat.completions.create(model="sim", messages=QUESTION, max_tokens=1)
        with pytest.raises(openai.RateLimitError) as caught:
            hasty.chat.completions.create(model="sim", messages=QUESTION, max_tokens=1)
        told_s = float(caught.value.response.headers["retry-after-ms"]) / 1000
        assert caught.value.code == "requests_per_minute"
        assert int(caught.value.response.headers["retry-after"]) >= 1
        patient = hasty.with_options(max_retries=2)
        began_s = time.monotonic()
        raw = patient.chat.completions.with_raw_response.create(
            model="sim", messages=QUESTION, max_tokens=1
        )
        waited_s = time.monotonic() - began_s
        assert raw.retries_taken == 1
        assert 1.0 <= waited_s <= told_s + 2.0


def test_a_prompt_beyond_the_servers_context_is_its_own_bad_request(
    client: OpenAI, tiny: LlamaServer, operator: Operator
) -> None:
    """The replica's refusal is relayed and counts against nobody."""
    long: Any = [{"role": "user", "content": "the sea " * 2500}]
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="tiny", messages=long, max_tokens=5, stream=stream)
        assert "context" in str(caught.value)
        assert caught.value.response.headers["x-fairway-reason"] == "upstream_refused"
    assert operator.get("/replicas/tiny-1")["live"]["state"] == "serving"


def _in_force(operator: Operator, tenant: str) -> None:
    version = operator.version(tenant)
    wait_until(lambda: operator.place.series("fairway_config_version") >= version, "the new key")
