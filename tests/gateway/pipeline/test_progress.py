"""What the dispatcher hears of a stream while it runs: seldom, yet never far behind."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from gateway.pipeline.attempt import TOLD_EVERY_TOKENS
from gateway.pipeline.flow import PoolFlow
from tests.fakes import scripts
from tests.fakes.data_plane import House, chat

TOKENS = 1_000


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Tokens so far, each time that the dispatcher hears of them."""
    heard: list[int] = []
    progress = PoolFlow.progress

    def hear(flow: PoolFlow, grant_id: int, output_tokens: int) -> None:
        heard.append(output_tokens)
        progress(flow, grant_id, output_tokens)

    monkeypatch.setattr(PoolFlow, "progress", hear)
    return heard


@pytest.mark.parametrize("priority", ["interactive", "batch"])
def test_dispatcher_hears_of_every_sixteenth_token(
    in_house: Any, told: list[int], priority: str
) -> None:
    """Of a batch call from its first tokens on, since these are what preemption throws away; of
    another once it has used up what it was charged for."""

    async def scenario(house: House) -> None:
        house.scripted.default = scripts.tokens(TOKENS)
        await house.call(chat(stream=True), headers={"x-fairway-priority": priority})

    in_house(scenario)
    assert {later - earlier for earlier, later in pairwise(told)} == {TOLD_EVERY_TOKENS}
    assert told[-1] > TOKENS - TOLD_EVERY_TOKENS
    assert (told[0] == TOLD_EVERY_TOKENS) is (priority == "batch")


def test_call_within_its_charge_tells_nothing(in_house: Any, told: list[int]) -> None:
    async def scenario(house: House) -> None:
        house.scripted.default = scripts.tokens(20)
        await house.call(chat(stream=True))

    in_house(scenario)
    assert told == []
