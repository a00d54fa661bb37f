"""The ``litellm`` SDK, as a client of each API that the gateway speaks."""

from __future__ import annotations

import json
from typing import Any

import litellm

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

GENERATING = ("sim", "tiny")
TOOL: Any = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}},
}


def access(facts: Facts) -> Any:
    return {"api_base": f"{facts['url']}/v1", "api_key": facts["key"]}


def chat(facts: Facts, name: str, text: str = QUESTION, **fields: Any) -> Any:
    asked: dict[str, Any] = {"model": f"openai/{name}", "messages": talk(text), "max_tokens": 8}
    return litellm.completion(**asked | {"max_retries": 0} | access(facts) | fields)


def message(facts: Facts, name: str, **fields: Any) -> Any:
    """Through its form for Anthropic's API."""
    asked: Any = {"model": f"anthropic/{name}", "messages": talk(), "max_tokens": 8}
    return litellm.completion(api_base=facts["url"], api_key=facts["key"], **asked | fields)


@case
def a_whole_answer_has_text_and_usage(facts: Facts) -> None:
    for name in GENERATING:
        for told in (chat(facts, name), message(facts, name)):
            assert told.choices[0].message.content
            is_one(told.usage.completion_tokens, 8)


@case
def a_stream_has_text_and_usage(facts: Facts) -> None:
    fields: Any = {"stream": True, "stream_options": {"include_usage": True}}
    for name in GENERATING:
        for stream in (chat(facts, name, **fields), message(facts, name, **fields)):
            whole: Any = litellm.stream_chunk_builder(list(stream))
            assert whole.choices[0].message.content
            is_one(whole.usage.completion_tokens, 8)


@case
def a_tool_is_called_whole_and_in_deltas(facts: Facts) -> None:
    whole = chat(facts, "scripted", "call a tool", tools=[TOOL])
    is_one(whole.choices[0].message.tool_calls[0].function.arguments, '{"city":"Graz"}')
    stream = chat(facts, "scripted", "call a tool", tools=[TOOL], stream=True)
    built: Any = litellm.stream_chunk_builder(list(stream))
    is_one(built.choices[0].message.tool_calls[0].function.arguments, '{"city":"Graz"}')


@case
def unknown_fields_and_pictures_reach_the_replica(facts: Facts) -> None:
    parts = [
        {"type": "text", "text": "echo"},
        {"type": "image_url", "image_url": {"url": PICTURE}},
    ]
    vendor = {"vendor": {"deep": [1, 2.5, None, "ü"]}}
    messages = [{"role": "user", "content": parts}]
    told = chat(facts, "scripted", messages=messages, extra_body=vendor)
    sent = json.loads(told.choices[0].message.content)
    is_one((sent["vendor"], sent["messages"][0]["content"]), (vendor["vendor"], parts))


@case
def cached_tokens_are_in_the_usage(facts: Facts) -> None:
    for name in GENERATING:
        for _ in range(2):
            usage = chat(facts, name, f"litellm {LONG}").usage
        assert usage.prompt_tokens_details.cached_tokens > 0, name


@case
def refusals_are_its_own_errors(facts: Facts) -> None:
    with Raised(litellm.AuthenticationError):
        chat(facts, "sim", api_key="sk-wrong")
    with Raised(litellm.NotFoundError):
        chat(facts, "gpt-9")
    with Raised(litellm.NotFoundError):
        message(facts, "claude-9")
    with Raised(litellm.BadRequestError):
        chat(facts, "sim", temperature=9)


@case
def a_limit_is_its_own_error_and_its_retry_waits(facts: Facts) -> None:
    slow = {"api_key": facts["slow_key"]}
    chat(facts, "scripted", **slow)
    with Raised(litellm.RateLimitError):
        chat(facts, "scripted", **slow)
    obeyed_retry(lambda: chat(facts, "scripted", **slow, max_retries=3))


@case
def a_broken_stream_raises_after_what_came(facts: Facts) -> None:
    texts = []
    with Raised(litellm.exceptions.MidStreamFallbackError):
        for chunk in chat(facts, "scripted", "break", stream=True):
            texts += [chunk.choices[0].delta.content or ""]
    is_one("".join(texts), "t0 t1 ")


@case
def a_stream_can_be_left(facts: Facts) -> None:
    stream = chat(facts, "scripted", "endless", stream=True)
    for _, _chunk in zip(range(3), stream, strict=False):
        pass
    stream.completion_stream.close()


@case
def vectors_are_floats(facts: Facts) -> None:
    for name in ("sim-vectors", "tiny-vectors"):
        told = litellm.embedding(
            model=f"openai/{name}", input=["The sea", "The wind"], **access(facts)
        )
        is_one(len(told.data), 2)


@case
def responses_are_whole_and_streamed(facts: Facts) -> None:
    for name in GENERATING:
        asked: Any = {"model": f"openai/{name}", "input": QUESTION, "max_output_tokens": 16}
        told: Any = litellm.responses(**asked, **access(facts))
        is_one(told.usage.output_tokens, 16)
        events: list[Any] = list(litellm.responses(**asked, **access(facts), stream=True))
        kinds = {getattr(event.type, "value", event.type) for event in events}
        assert "response.output_text.delta" in kinds, kinds


if __name__ == "__main__":
    run("litellm")
