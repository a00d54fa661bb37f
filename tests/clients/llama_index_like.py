"""``llama-index-llms-openai-like``."""

from __future__ import annotations

import json
from typing import Any

import openai
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

from tests.clients.cases import PICTURE, QUESTION, Facts, Raised, case, is_one, obeyed_retry, run

GENERATING = ("sim", "tiny")


def model(facts: Facts, name: str, **options: Any) -> Any:
    chosen: dict[str, Any] = {"api_base": f"{facts['url']}/v1", "api_key": facts["key"]}
    chosen |= {"model": name, "max_tokens": 8, "max_retries": 0, "is_chat_model": True}
    return OpenAILike(**chosen | {"is_function_calling_model": True} | options)


def weather(city: str) -> str:
    """The weather of a city."""
    return city


def said(text: str = QUESTION) -> list[ChatMessage]:
    return [ChatMessage(role="user", content=text)]


@case
def a_whole_answer_has_text_and_usage(facts: Facts) -> None:
    for name in GENERATING:
        told = model(facts, name).chat(said())
        assert told.message.content
        is_one(told.raw.usage.completion_tokens, 8)
        assert model(facts, name).complete(QUESTION).text


@case
def a_stream_has_text(facts: Facts) -> None:
    for name in GENERATING:
        pieces = [each.delta for each in model(facts, name).stream_chat(said())]
        assert "".join(piece or "" for piece in pieces)


@case
def completions_work_too(facts: Facts) -> None:
    for name in GENERATING:
        assert model(facts, name, is_chat_model=False).complete("The sea").text


@case
def a_tool_is_called(facts: Facts) -> None:
    able, tools = model(facts, "scripted"), [FunctionTool.from_defaults(weather)]
    told = able.chat_with_tools(tools, user_msg="call a tool")
    (call,) = able.get_tool_calls_from_response(told)
    is_one((call.tool_name, call.tool_kwargs), ("weather", {"city": "Graz"}))
    *_, last = able.stream_chat_with_tools(tools, user_msg="call a tool")
    (call,) = able.get_tool_calls_from_response(last)
    is_one(call.tool_kwargs, {"city": "Graz"})


@case
def unknown_fields_and_pictures_reach_the_replica(facts: Facts) -> None:
    blocks = [TextBlock(text="echo"), ImageBlock(url=PICTURE)]
    vendor = {"extra_body": {"vendor": {"deep": [1, 2.5, None, "ü"]}}}
    told = model(facts, "scripted", additional_kwargs=vendor).chat(
        [ChatMessage(role="user", blocks=blocks)]
    )
    sent = json.loads(told.message.content)
    is_one(sent["vendor"], vendor["extra_body"]["vendor"])
    assert sent["messages"][0]["content"][1]["image_url"]["url"].startswith("data:image/png")


@case
def refusals_are_its_own_errors(facts: Facts) -> None:
    with Raised(openai.AuthenticationError):
        model(facts, "sim", api_key="sk-wrong").chat(said())
    with Raised(openai.NotFoundError):
        model(facts, "gpt-9").chat(said())
    with Raised(openai.BadRequestError):
        model(facts, "sim", additional_kwargs={"top_p": 9}).chat(said())


@case
def a_limit_is_its_own_error_and_its_retry_waits(facts: Facts) -> None:
    hasty = model(facts, "scripted", api_key=facts["slow_key"])
    hasty.chat(said())
    with Raised(openai.RateLimitError):
        hasty.chat(said())
    patient = model(facts, "scripted", api_key=facts["slow_key"], max_retries=3)
    obeyed_retry(lambda: patient.chat(said()))


@case
def a_broken_stream_raises_after_what_came(facts: Facts) -> None:
    texts: list[str] = []
    with Raised(openai.APIError):
        texts += (each.delta for each in model(facts, "scripted").stream_chat(said("break")))
    is_one("".join(texts), "t0 t1 ")


@case
def a_stream_can_be_left(facts: Facts) -> None:
    stream = model(facts, "scripted").stream_chat(said("endless"))
    for _, _chunk in zip(range(3), stream, strict=False):
        pass
    stream.close()


if __name__ == "__main__":
    run("llama-index-llms-openai-like")
