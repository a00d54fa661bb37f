"""Shutdown: the queue is refused at once, streams end within the grace, nothing waits longer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fakes import scripts
from tests.fakes.data_plane import House, chat, replica


def test_queued_are_refused_and_streams_finish(in_house: Any) -> None:
    """R28, row 17"""

    async def scenario(house: House) -> None:
        house.scripted.default = scripts.tokens(10, gap_s=1.0)
        calls = [asyncio.create_task(house.call(chat(stream=True))) for _ in range(20)]
        await asyncio.sleep(2.5)
        began_s = house.clock.monotonic()
        house.gateway.refuse_new()
        await asyncio.sleep(0)
        refused = [call.result() for call in calls if call.done()]
        assert len(refused) == 10
        assert {answer.status for answer in refused} == {503}
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        assert (await house.call(chat())).status == 503
        await house.gateway.running.none_left()
        assert house.clock.monotonic() - began_s < 10
        finished = [call.result() for call in calls if call.result().status == 200]
        assert len(finished) == 10
        assert all(answer.done for answer in finished)

    in_house(scenario, replicas=(replica("r1", slots=10),))


def test_stream_beyond_the_grace_ends_with_an_error_event(in_house: Any) -> None:
    """Row 17"""

    async def scenario(house: House) -> None:
        house.scripted.default = scripts.tokens(1000, gap_s=1.0)
        call = asyncio.create_task(house.call(chat(stream=True)))
        await asyncio.sleep(5.5)
        house.gateway.refuse_new()
        await house.gateway.finish()
        answer = await call
        assert answer.events()[-1]["error"]["code"] == "draining"
        assert house.records[0].completion_tokens == pytest.approx(6)

    in_house(scenario)
