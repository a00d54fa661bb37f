"""``langchain-openai``: its chat models, in both of its API forms, and its vectors."""

from __future__ import annotations

import json
from typing import Any

import openai
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

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
)

GENERATING = ("sim", "tiny")


def model(facts: Facts, name: str, **options: Any) -> Any:
    chosen = {"base_url": f"{facts['url']}/v1", "api_key": facts["key"], "max_retries": 0}
    return ChatOpenAI(**{"model": name, "max_completion_tokens": 8, **chosen, **options})


def weather(place: str) -> str:
    """The weather of a place."""
    return place


@case
def a_whole_answer_has_text_and_usage(facts: Facts) -> None:
    for name in GENERATING:
        for responses in (False, True):
            told = model(facts, name, use_responses_api=responses).invoke(QUESTION)
            assert told.text
            is_one(told.usage_metadata["output_tokens"], 8)


@case
def a_stream_has_text_and_usage(facts: Facts) -> None:
    for name in GENERATING:
        for responses in (False, True):
            chat = model(facts, name, use_responses_api=responses, stream_usage=True)
            first, *others = chat.stream(QUESTION)
            whole = sum(others, start=first)
            assert whole.text
            is_one(whole.usage_metadata["output_tokens"], 8)


@case
def a_tool_is_called_whole_and_in_deltas(facts: Facts) -> None:
    able = model(facts, "scripted").bind_tools([weather])
    (call,) = able.invoke("call a tool").tool_calls
    is_one((call["name"], call["args"]), ("weather", {"city": "Graz"}))
    first, *others = able.stream("call a tool")
    is_one([each["args"] for each in sum(others, start=first).tool_calls], [{"city": "Graz"}])


@case
def unknown_fields_and_pictures_reach_the_replica(facts: Facts) -> None:
    vendor = {"vendor": {"deep": [1, 2.5, None, "ü"]}}
    parts: Any = [
        {"type": "text", "text": "echo"},
        {"type": "image_url", "image_url": {"url": PICTURE}},
    ]
    told = model(facts, "scripted", extra_body=vendor).invoke([HumanMessage(parts)])
    sent = json.loads(told.text)
    is_one(sent["vendor"], vendor["vendor"])
    is_one(sent["messages"][0]["content"], parts)


@case
def cached_tokens_are_in_the_usage(facts: Facts) -> None:
    for name in GENERATING:
        for _ in range(2):
            told = model(facts, name).invoke(f"langchain {LONG}")
        assert told.usage_metadata["input_token_details"]["cache_read"] > 0, name


@case
def refusals_are_its_own_errors(facts: Facts) -> None:
    with Raised(openai.AuthenticationError):
        model(facts, "sim", api_key="sk-wrong").invoke(QUESTION)
    with Raised(openai.NotFoundError):
        model(facts, "gpt-9").invoke(QUESTION)
    with Raised(openai.BadRequestError):
        model(facts, "sim", temperature=9).invoke(QUESTION)


@case
def a_limit_is_its_own_error_and_its_retry_waits(facts: Facts) -> None:
    hasty = model(facts, "scripted", api_key=facts["slow_key"])
    hasty.invoke(QUESTION)
    with Raised(openai.RateLimitError):
        hasty.invoke(QUESTION)
    patient = model(facts, "scripted", api_key=facts["slow_key"], max_retries=3)
    obeyed_retry(lambda: patient.invoke(QUESTION))


@case
def a_broken_stream_raises_after_what_came(facts: Facts) -> None:
    texts = []
    with Raised(openai.APIError):
        for chunk in model(facts, "scripted").stream("break"):
            texts += [chunk.text] if chunk.text else []
    is_one(texts, ["t0 ", "t1 "])


@case
def a_stream_can_be_left(facts: Facts) -> None:
    stream = model(facts, "scripted").stream("endless")
    for _, _chunk in zip(range(3), stream, strict=False):
        pass
    stream.close()


@case
def vectors_are_floats(facts: Facts) -> None:
    for name in ("sim-vectors", "tiny-vectors"):
        options: Any = {"base_url": f"{facts['url']}/v1", "api_key": facts["key"], "model": name}
        embeddings = OpenAIEmbeddings(check_embedding_ctx_length=False, **options)
        is_one(len(embeddings.embed_documents(["The sea", "The wind"])), 2)


if __name__ == "__main__":
    run("langchain-openai")
