"""A batch attempt gives its slot to an interactive call and runs again, as if nothing had been."""

from __future__ import annotations

import asyncio
from typing import Any

from gateway.core.reasons import Outcome, Reason
from tests.fakes import scripts
from tests.fakes.data_plane import House, chat, replica

ONE_SLOT = (replica("r1", slots=1),)
BATCH = {"x-fairway-priority": "batch"}
INTERACTIVE = {"x-fairway-priority": "interactive"}
GENEROUS = {("preempt_waste_ratio", "*"): 1.0}


async def earn(house: House) -> None:
    """Completed service pays for what preemption throws away."""
    house.scripted.default = scripts.tokens(3)
    for _ in range(20):
        await house.call(chat("x" * 2_000))


async def long_batch_and_a_chat(house: House, *, stream: bool) -> tuple[Any, Any]:
    """Both answers. The batch call runs for 60 s; the chat comes after 1 s."""
    house.change(parameters=GENEROUS)
    await earn(house)
    house.scripted.default = scripts.tokens(60, gap_s=1.0)
    batch = asyncio.create_task(house.call(chat("batch", stream=stream), headers=BATCH))
    await asyncio.sleep(1.0)
    house.scripted.default = scripts.tokens(3)
    answer = await house.call(chat("hi"), headers=INTERACTIVE)
    return await batch, answer


def test_batch_attempt_gives_way_and_completes_later(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        batch, answer = await long_batch_and_a_chat(house, stream=False)
        chat_record, batch_record = house.records[-2:]
        assert (answer.status, batch.status) == (200, 200)
        assert chat_record.ttft_s is not None
        assert 0.5 <= chat_record.ttft_s <= 0.6
        assert [attempt.reason for attempt in batch_record.attempts] == [Reason.PREEMPTED, None]
        assert batch_record.outcome is Outcome.COMPLETED
        assert batch_record.completion_tokens == 3
        assert house.leftovers == {}

    in_house(scenario, replicas=ONE_SLOT)


def test_stream_that_has_begun_is_not_taken_back(in_house: Any) -> None:
    async def scenario(house: House) -> None:
        batch, _ = await long_batch_and_a_chat(house, stream=True)
        assert len(batch.events()) >= 60
        assert batch.done
        assert len(house.records[-1].attempts) == 1

    in_house(scenario, replicas=ONE_SLOT)


def test_client_that_leaves_after_a_preemption_owes_nothing(in_house: Any) -> None:
    """G5: it left the queue, and what its lost attempt received is nobody's."""

    async def scenario(house: House) -> None:
        house.change(parameters=GENEROUS)
        await earn(house)
        house.scripted.default = scripts.tokens(60, gap_s=1.0)
        leave = asyncio.Event()
        batch = asyncio.create_task(house.call(chat("batch"), headers=BATCH, leave=leave))
        await asyncio.sleep(1.0)
        chats = [
            asyncio.create_task(house.call(chat(f"c{number}"), headers=INTERACTIVE))
            for number in range(3)
        ]
        await asyncio.sleep(2.0)
        leave.set()
        await batch
        record = house.records[-1]
        assert record.outcome in (Outcome.EVICTED, Outcome.ABORTED)
        assert record.completion_tokens == 0
        for task in chats:
            task.cancel()
        await asyncio.gather(*chats, return_exceptions=True)
        await asyncio.sleep(0.1)
        assert house.leftovers == {}

    in_house(scenario, replicas=ONE_SLOT)


def test_leaving_at_the_moment_of_preemption_leaves_nothing(in_house: Any) -> None:
    """Both cancel the same task: the client's reason counts, and every slot is given back."""

    async def scenario(house: House) -> None:
        house.change(parameters=GENEROUS)
        await earn(house)
        house.scripted.default = scripts.tokens(60, gap_s=1.0)
        leave = asyncio.Event()
        batch = asyncio.create_task(house.call(chat("batch"), headers=BATCH, leave=leave))
        await asyncio.sleep(1.0)
        answer = asyncio.create_task(house.call(chat("hi"), headers=INTERACTIVE))
        asyncio.get_running_loop().call_later(0.5, leave.set)
        await batch
        assert house.records[-1].reason is Reason.CLIENT_GONE
        answer.cancel()
        await asyncio.gather(answer, return_exceptions=True)
        await asyncio.sleep(0.1)
        assert house.leftovers == {}

    in_house(scenario, replicas=ONE_SLOT)
