"""What a caller gets: streams as they came, one answer otherwise, usage only when asked for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.data_plane import CREATED_AT, MODEL, House, chat
from tests.fakes.scripts import reasoning_then_text, tokens


def test_stream_is_relayed_and_recorded(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        house.scripted.default = tokens(5, ttft_s=0.2, gap_s=0.05, prompt=20, cached=8)
        answer = await house.call(chat(stream=True))
        assert answer.status == 200
        assert answer.text == "t0 t1 t2 t3 t4 "
        assert answer.done
        record = house.records[0]
        assert record.outcome == "completed"
        assert (record.prompt_tokens, record.cached_tokens, record.completion_tokens) == (20, 8, 5)
        assert record.ttft_s == pytest.approx(0.2)
        assert record.tpot_s == pytest.approx(0.05)
        assert record.e2e_s == pytest.approx(0.4)
        assert house.leftovers == {}

    in_house(scenario)


def test_answer_without_stream_is_one_object(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        answer = await house.call(chat())
        body = answer.json()
        assert body["object"] == "chat.completion"
        assert body["choices"][0]["message"]["content"] == "t0 t1 t2 "
        assert body["usage"]["completion_tokens"] == 3
        assert answer.headers["x-fairway-class"] == "standard"

    in_house(scenario)


def test_usage_reaches_only_the_caller_that_asked(in_house: Any) -> None:
    """G8"""

    async def scenario(house: House) -> None:
        plain = await house.call(chat(stream=True))
        asked = await house.call(chat(stream=True, stream_options={"include_usage": True}))
        declined = await house.call(chat(stream=True, stream_options={"include_usage": False}))
        assert not any(event.get("usage") for event in plain.events() + declined.events())
        assert asked.events()[-1]["usage"]["total_tokens"] == 13
        assert [record.completion_tokens for record in house.records] == [3, 3, 3]

    in_house(scenario)


def test_first_token_may_be_reasoning_first_visible_may_not(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        house.scripted.default = reasoning_then_text(pause_s=1.5)
        await house.call(chat(stream=True))
        record = house.records[0]
        assert (record.ttft_s, record.first_visible_s) == (0.0, 1.5)

    in_house(scenario)


def test_models_are_listed_with_the_moment_of_their_making(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        listed = await house.call(path="/v1/models", method="GET")
        (model,) = listed.json()["data"]
        one = await house.call(path=f"/v1/models/{MODEL}", method="GET")
        assert model["created"] == one.json()["created"] == int(CREATED_AT)

    in_house(scenario)
