"""The official ``openai`` client; every case holds for both majors in use, 2 and 3."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import openai

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

TOOL: Any = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}},
}
GENERATING = ("sim", "tiny")


def client(facts: Facts, **options: Any) -> Any:
    chosen = {"base_url": f"{facts['url']}/v1", "api_key": facts["key"], "max_retries": 0}
    return openai.OpenAI(**chosen | options)


def chat(facts: Facts, model: str, text: str = QUESTION, **fields: Any) -> Any:
    chosen = {"model": model, "messages": talk(text), "max_tokens": 8, **fields}
    return client(facts).chat.completions.create(**chosen)


@case
def models_are_listed(facts: Facts) -> None:
    listed = {each.id for each in client(facts).models.list()}
    assert {"sim", "tiny", "scripted"} <= listed, listed
    is_one(client(facts).models.retrieve("sim").id, "sim")


@case
def a_whole_answer_has_text_and_usage_and_limits(facts: Facts) -> None:
    for model in GENERATING:
        raw = client(facts).chat.completions.with_raw_response.create(
            model=model, messages=talk(), max_tokens=8
        )
        told: Any = raw.parse()
        assert told.choices[0].message.content
        is_one((told.choices[0].finish_reason, told.usage.completion_tokens), ("length", 8))
        for unit in ("requests", "tokens"):
            assert int(raw.headers[f"x-ratelimit-remaining-{unit}"]) > 0
            assert raw.headers[f"x-ratelimit-reset-{unit}"].endswith("s")
        assert told._request_id == raw.headers["x-request-id"]


@case
def a_stream_has_text_and_the_usage_it_asked_for(facts: Facts) -> None:
    for model in GENERATING:
        plain = list(chat(facts, model, stream=True))
        assert "".join(each.choices[0].delta.content or "" for each in plain)
        assert all(each.usage is None for each in plain)
        *_, last = chat(facts, model, stream=True, stream_options={"include_usage": True})
        is_one((last.choices, last.usage.completion_tokens), ([], 8))


@case
def its_own_accumulation_works(facts: Facts) -> None:
    asked: Any = {"model": "scripted", "messages": talk()}
    with client(facts).chat.completions.stream(**asked) as stream:
        is_one(stream.get_final_completion().choices[0].message.content, "t0 t1 t2 ")


@case
def a_tool_is_called_whole_and_in_deltas(facts: Facts) -> None:
    whole = chat(facts, "scripted", "call a tool", tools=[TOOL])
    (call,) = whole.choices[0].message.tool_calls
    is_one((call.function.name, json.loads(call.function.arguments)), ("weather", {"city": "Graz"}))
    is_one(whole.choices[0].finish_reason, "tool_calls")
    deltas = [
        piece.function.arguments or ""
        for chunk in chat(facts, "scripted", "call a tool", tools=[TOOL], stream=True)
        for choice in chunk.choices
        for piece in choice.delta.tool_calls or ()
    ]
    is_one("".join(deltas), '{"city":"Graz"}')


@case
def unknown_fields_and_pictures_reach_the_replica(facts: Facts) -> None:
    parts = [
        {"type": "text", "text": "echo"},
        {"type": "image_url", "image_url": {"url": PICTURE}},
    ]
    vendor = {"vendor": {"deep": [1, 2.5, None, "ü"]}, "top_k": 3}
    told = client(facts).chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": parts}], extra_body=vendor
    )
    sent = json.loads(told.choices[0].message.content or "")
    is_one(sent["messages"][0]["content"], parts)
    is_one({name: sent[name] for name in vendor}, vendor)


@case
def cached_tokens_are_in_the_usage(facts: Facts) -> None:
    for model in GENERATING:
        text = f"openai {openai.__version__} {LONG}"
        for _ in range(2):
            usage = chat(facts, model, text).usage
        assert 0 < usage.prompt_tokens_details.cached_tokens < usage.prompt_tokens, model


@case
def the_tier_that_served_is_told(facts: Facts) -> None:
    for tier, told in (("auto", "default"), ("flex", "flex")):
        is_one(chat(facts, "sim", service_tier=tier).service_tier, told)


@case
def refusals_are_its_own_errors(facts: Facts) -> None:
    with Raised(openai.AuthenticationError) as caught:
        client(facts, api_key="sk-wrong").models.list()
    is_one(caught.error.code, "invalid_api_key")
    with Raised(openai.NotFoundError) as caught:
        chat(facts, "gpt-9")
    is_one((caught.error.code, caught.error.param), ("model_not_found", "model"))
    with Raised(openai.BadRequestError) as caught:
        chat(facts, "sim", temperature=9)
    is_one(caught.error.param, "temperature")
    with Raised(openai.BadRequestError) as caught:
        chat(facts, "tiny", "the sea " * 2500, stream=True)
    assert "context" in str(caught.error)


@case
def a_limit_is_its_own_error_and_its_retry_waits(facts: Facts) -> None:
    asked: Any = {"model": "scripted", "messages": talk(), "max_tokens": 1}
    slow = client(facts, api_key=facts["slow_key"])
    slow.chat.completions.create(**asked)
    with Raised(openai.RateLimitError) as caught:
        slow.chat.completions.create(**asked)
    is_one(caught.error.code, "requests_per_minute")
    assert int(caught.error.response.headers["retry-after"]) >= 1
    patient = client(facts, api_key=facts["slow_key"], max_retries=3)
    obeyed_retry(lambda: patient.chat.completions.create(**asked))


@case
def a_broken_stream_raises_after_what_came(facts: Facts) -> None:
    texts = []
    with Raised(openai.APIError) as caught:
        for chunk in chat(facts, "scripted", "break", stream=True):
            texts += [choice.delta.content for choice in chunk.choices if choice.delta.content]
    is_one((texts, caught.error.code), (["t0 ", "t1 "], "upstream_incomplete"))


@case
def a_stream_can_be_left(facts: Facts) -> None:
    stream = chat(facts, "scripted", "endless", stream=True)
    for _, _chunk in zip(range(3), stream, strict=False):
        pass
    stream.close()


@case
def completions_are_whole_and_streamed(facts: Facts) -> None:
    asked: Any = {"model": "tiny", "prompt": "The sea", "max_tokens": 5}
    completions = client(facts).completions
    is_one(completions.create(**asked).usage.completion_tokens, 5)
    assert "".join(chunk.choices[0].text for chunk in completions.create(stream=True, **asked))


@case
def vectors_are_floats_or_base64(facts: Facts) -> None:
    for model in ("sim-vectors", "tiny-vectors"):
        embeddings = client(facts).embeddings
        default = embeddings.create(model=model, input=["The sea", "The wind"])
        floats = embeddings.create(model=model, input="The sea", encoding_format="float")
        is_one([each.index for each in default.data], [0, 1])
        pairs = zip(default.data[0].embedding, floats.data[0].embedding, strict=True)
        assert all(abs(one - other) < 1e-5 for one, other in pairs)
        raw = embeddings.with_raw_response.create(
            model=model, input="The sea", encoding_format="base64"
        )
        packed = base64.b64decode(json.loads(raw.http_response.content)["data"][0]["embedding"])
        is_one(len(struct.unpack(f"<{len(packed) // 4}f", packed)), len(default.data[0].embedding))


@case
def responses_are_whole_streamed_and_counted(facts: Facts) -> None:
    for model in GENERATING:
        responses = client(facts).responses
        asked: Any = {"model": model, "input": QUESTION, "instructions": "Be kind."}
        whole = responses.create(max_output_tokens=8, **asked)
        assert whole.output_text
        counted = responses.input_tokens.count(**asked)
        usage: Any = whole.usage
        is_one((usage.output_tokens, usage.input_tokens), (8, counted.input_tokens))
        events: list[Any] = list(responses.create(max_output_tokens=8, stream=True, **asked))
        text = "".join(each.delta for each in events if each.type == "response.output_text.delta")
        is_one(events[-1].response.output_text, text)


@case
def pictures_in_responses_reach_the_replica(facts: Facts) -> None:
    parts = [
        {"type": "input_text", "text": "echo"},
        {"type": "input_image", "image_url": PICTURE, "detail": "auto"},
    ]
    events = client(facts).responses.create(
        model="scripted", input=[{"role": "user", "content": parts}], stream=True
    )
    said = "".join(each.delta for each in events if each.type == "response.output_text.delta")
    is_one(json.loads(said)["input"][0]["content"], parts)


@case
def a_broken_response_ends_with_an_error(facts: Facts) -> None:
    asked: Any = {"model": "scripted", "input": talk("break")}
    events = list(client(facts).responses.create(stream=True, **asked))
    is_one([each.type for each in events[-2:]], ["response.output_text.delta", "error"])
    is_one(events[-1].code, "upstream_incomplete")
    with Raised(openai.InternalServerError) as caught:
        client(facts).responses.create(**asked)
    is_one(caught.error.code, "upstream_incomplete")


@case
def stored_responses_are_refused_by_name(facts: Facts) -> None:
    with Raised(openai.BadRequestError) as caught:
        client(facts).responses.create(model="sim", input="x", previous_response_id="resp_1")
    is_one(caught.error.param, "previous_response_id")


if __name__ == "__main__":
    run("openai")
