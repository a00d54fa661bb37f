"""POST /v1/completions"""

from __future__ import annotations

from typing import Any

from tests.conformance.chat import chunks, expect_two
from tests.conformance.checks import Dialect
from tests.conformance.errors import openai_error
from tests.conformance.server import Answer, Server, expect, expect_equal, expect_kind

PATH = "/v1/completions"


def body(server: Server, **fields: Any) -> dict[str, Any]:
    return {"model": server.model, "prompt": "The sea", "max_tokens": 6, **fields}


async def ask(server: Server, **fields: Any) -> Answer:
    return await server.post(PATH, body(server, **fields))


COMPLETIONS = Dialect("completions", ask, [])


@COMPLETIONS.check
async def a_whole_answer_has_its_shape(server: Server) -> None:
    told = (await ask(server)).fine()
    expect_equal(told["object"], "text_completion", "`object`")
    (choice,) = told["choices"]
    expect_kind(choice["text"], str, "the text")
    expect(choice["finish_reason"] in ("stop", "length"), f"{choice['finish_reason']!r}")
    usage = told["usage"]
    total = usage["prompt_tokens"] + usage["completion_tokens"]
    expect_equal(usage["total_tokens"], total, "`usage.total_tokens`")


@COMPLETIONS.check
async def a_stream_has_its_shape(server: Server) -> None:
    told = chunks((await ask(server, stream=True)).events())
    expect_equal({each["object"] for each in told}, {"text_completion"}, "`object`")
    choices = [choice for each in told for choice in each["choices"]]
    expect("".join(choice["text"] for choice in choices), "the stream has no text")
    ends = [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]
    expect_equal(len(ends), 1, "the number of finish reasons")


@COMPLETIONS.check
async def a_stream_has_usage_at_its_end_when_asked(server: Server) -> None:
    answer = await ask(server, stream=True, stream_options={"include_usage": True})
    last = chunks(answer.events())[-1]
    expect_equal(last["choices"], [], "`choices` of the last chunk")
    expect_kind(last.get("usage"), dict, "`usage` of the last chunk")


@COMPLETIONS.check
async def two_prompts_have_two_choices(server: Server) -> None:
    prompts = ["The sea", "A mountain of snow"]
    expect_two([(await ask(server, prompt=prompts)).fine()])
    expect_two(chunks((await ask(server, prompt=prompts, stream=True)).events()))


@COMPLETIONS.check
async def a_missing_prompt_is_400(server: Server) -> None:
    asked = body(server)
    del asked["prompt"]
    openai_error(await server.post(PATH, asked), 400, param="prompt")


@COMPLETIONS.check
async def an_unknown_model_is_404(server: Server) -> None:
    openai_error(await ask(server, model="no-such-model"), 404)
