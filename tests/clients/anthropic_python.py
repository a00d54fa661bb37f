"""The official ``anthropic`` client."""

from __future__ import annotations

import json
from typing import Any

import anthropic

from tests.clients.cases import (
    LONG,
    PICTURE,
    QUESTION,
    Facts,
    Raised,
    case,
    is_one,
    obeyed_retry,
    run,
    talk,
)

TOOL: Any = {"name": "weather", "input_schema": {"type": "object", "properties": {}}}
GENERATING = ("sim", "tiny")


def client(facts: Facts, **options: Any) -> Any:
    chosen = {"base_url": facts["url"], "api_key": facts["key"], "max_retries": 0}
    return anthropic.Anthropic(**chosen | options)


def message(facts: Facts, model: str, text: str = QUESTION, **fields: Any) -> Any:
    chosen = {"model": model, "messages": talk(text), "max_tokens": 8, **fields}
    return client(facts).messages.create(**chosen)


@case
def models_are_listed(facts: Facts) -> None:
    assert {"sim", "tiny", "scripted"} <= {each.id for each in client(facts).models.list()}
    is_one(client(facts).models.retrieve("sim").type, "model")


@case
def a_whole_answer_has_text_and_usage_and_limits(facts: Facts) -> None:
    for model in GENERATING:
        raw = client(facts).messages.with_raw_response.create(
            model=model, messages=talk(), max_tokens=8
        )
        told: Any = raw.parse()
        is_one((told.stop_reason, told.usage.output_tokens), ("max_tokens", 8))
        assert told.content[0].text
        assert int(raw.headers["anthropic-ratelimit-requests-remaining"]) > 0
        assert raw.headers["anthropic-ratelimit-tokens-reset"].endswith("Z")
        assert told._request_id == raw.headers["request-id"]


@case
def a_stream_becomes_the_same_object(facts: Facts) -> None:
    for model in GENERATING:
        with client(facts).messages.stream(model=model, messages=talk(), max_tokens=8) as stream:
            text = "".join(stream.text_stream)
            told: Any = stream.get_final_message()
        is_one((told.content[0].text, told.usage.output_tokens), (text, 8))


@case
def a_tool_is_called_whole_and_in_deltas(facts: Facts) -> None:
    whole = message(facts, "scripted", "call a tool", tools=[TOOL])
    is_one((whole.content[-1].name, whole.content[-1].input), ("weather", {"place": "Graz"}))
    is_one(whole.stop_reason, "tool_use")
    pieces = [
        event.delta.partial_json
        for event in message(facts, "scripted", "call a tool", tools=[TOOL], stream=True)
        if event.type == "content_block_delta" and event.delta.type == "input_json_delta"
    ]
    is_one("".join(pieces), '{"place": "Graz"}')


@case
def unknown_fields_and_pictures_reach_the_replica(facts: Facts) -> None:
    kind, _, data = PICTURE.removeprefix("data:").partition(";base64,")
    source = {"type": "base64", "media_type": kind, "data": data}
    parts: Any = [{"type": "text", "text": "echo"}, {"type": "image", "source": source}]
    vendor = {"vendor": {"deep": [1, 2.5, None, "ü"]}, "speed": "fast"}
    told: Any = client(facts).messages.create(
        model="scripted",
        max_tokens=8,
        messages=[{"role": "user", "content": parts}],
        extra_body=vendor,
    )
    sent = json.loads(told.content[0].text)
    is_one(sent["messages"][0]["content"], parts)
    is_one({name: sent[name] for name in vendor}, vendor)


@case
def cached_tokens_are_in_the_usage(facts: Facts) -> None:
    for model in GENERATING:
        system = [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]
        for _ in range(2):
            usage = message(facts, model, system=system).usage
        assert usage.cache_read_input_tokens > 0, model


@case
def the_tier_that_served_is_told(facts: Facts) -> None:
    for tier in ("auto", "standard_only"):
        is_one(message(facts, "sim", service_tier=tier).usage.service_tier, "standard")


@case
def tokens_are_counted_as_the_answer_counts_them(facts: Facts) -> None:
    for model in GENERATING:
        counted = client(facts).messages.count_tokens(model=model, messages=talk())
        usage = message(facts, model).usage
        is_one(counted.input_tokens, usage.input_tokens + (usage.cache_read_input_tokens or 0))


@case
def refusals_are_its_own_errors(facts: Facts) -> None:
    with Raised(anthropic.AuthenticationError) as caught:
        client(facts, api_key="sk-ant-wrong").models.list()
    is_one(caught.error.body["error"]["type"], "authentication_error")
    with Raised(anthropic.NotFoundError) as caught:
        message(facts, "claude-9")
    is_one(caught.error.body["error"]["type"], "not_found_error")
    with Raised(anthropic.BadRequestError) as caught:
        message(facts, "sim", extra_body={"temperature": 2})
    is_one(caught.error.body["error"]["details"]["param"], "temperature")
    with Raised(anthropic.BadRequestError) as caught:
        message(facts, "tiny", "the sea " * 2500, stream=True)
    assert "context" in str(caught.error)


@case
def a_limit_is_its_own_error_and_its_retry_waits(facts: Facts) -> None:
    asked: Any = {"model": "scripted", "messages": talk(), "max_tokens": 1}
    slow = client(facts, api_key=facts["slow_key"])
    slow.messages.create(**asked)
    with Raised(anthropic.RateLimitError) as caught:
        slow.messages.create(**asked)
    is_one(caught.error.body["error"]["details"]["error_code"], "requests_per_minute")
    patient = client(facts, api_key=facts["slow_key"], max_retries=3)
    obeyed_retry(lambda: patient.messages.create(**asked))


@case
def a_broken_stream_raises_after_what_came(facts: Facts) -> None:
    texts = []
    with Raised(anthropic.APIStatusError) as caught:
        for event in message(facts, "scripted", "break", stream=True):
            if event.type == "content_block_delta":
                texts.append(event.delta.text)
    is_one(texts, ["t0 ", "t1 "])
    assert "upstream_incomplete" in str(caught.error)


@case
def a_stream_can_be_left(facts: Facts) -> None:
    stream = message(facts, "scripted", "endless", stream=True)
    for _, _event in zip(range(4), stream, strict=False):
        pass
    stream.close()


if __name__ == "__main__":
    run("anthropic")
