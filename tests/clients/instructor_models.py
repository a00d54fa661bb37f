"""``instructor``: answers as objects, by a tool that must be called."""

from __future__ import annotations

from typing import Any

import instructor
import openai
from instructor.core import InstructorRetryException
from pydantic import BaseModel

from tests.clients.cases import Facts, Raised, case, is_one, obeyed_retry, run, talk


class Weather(BaseModel):
    """The tool that the scripted replica calls is named in lower case; its mode says the rest."""

    city: str


Weather.__name__ = "weather"


def client(facts: Facts, **options: Any) -> Any:
    chosen: dict[str, Any] = {"base_url": f"{facts['url']}/v1", "api_key": facts["key"]}
    return instructor.from_openai(
        openai.OpenAI(**chosen | {"max_retries": 0} | options), mode=instructor.Mode.TOOLS
    )


def asked(text: str = "call a tool") -> Any:
    return {"model": "scripted", "messages": talk(text), "max_retries": 0}


@case
def a_tool_becomes_an_object(facts: Facts) -> None:
    is_one(client(facts).chat.completions.create(response_model=Weather, **asked()).city, "Graz")


@case
def usage_is_told_beside_the_object(facts: Facts) -> None:
    create = client(facts).chat.completions.create_with_completion
    told, raw = create(response_model=Weather, **asked())
    is_one((told.city, raw.usage.completion_tokens), ("Graz", 5))


@case
def a_streamed_object_grows(facts: Facts) -> None:
    create = client(facts).chat.completions.create_partial
    *_, last = create(response_model=Weather, **asked())
    is_one(last.city, "Graz")


@case
def an_answer_without_the_tool_is_asked_for_again_and_told(facts: Facts) -> None:
    with Raised(InstructorRetryException):
        client(facts).chat.completions.create(
            response_model=Weather, **asked("three tokens") | {"max_retries": 2}
        )


@case
def refusals_are_told(facts: Facts) -> None:
    for wrong in ({"api_key": "sk-wrong"},):
        with Raised(InstructorRetryException) as caught:
            client(facts, **wrong).chat.completions.create(response_model=Weather, **asked())
        assert "invalid_api_key" in str(caught.error)


@case
def its_retries_wait_for_a_limit(facts: Facts) -> None:
    patient = client(facts, api_key=facts["slow_key"], max_retries=3)
    create = patient.chat.completions.create
    obeyed_retry(lambda: create(response_model=Weather, **asked()))


if __name__ == "__main__":
    run("instructor")
