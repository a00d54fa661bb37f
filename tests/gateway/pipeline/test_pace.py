"""How many calls of a crowd end in one turn of the loop?"""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from gateway.core.clock import SystemClock
from gateway.core.errors import Interrupted
from gateway.core.reasons import Reason
from gateway.pipeline.call import Call
from gateway.pipeline.call_clock import CallClock
from gateway.pipeline.pace import AT_ONCE, Pace
from gateway.pipeline.running import RunningCalls


async def test_a_crowd_is_let_go_a_few_at_a_time_and_in_order() -> None:
    """G21: what is counted is the acts of each turn; another callback runs between two turns."""
    pace, done, turns = Pace(), list[int](), list[int]()
    loop = asyncio.get_running_loop()

    def look() -> None:
        turns.append(len(done))
        if len(done) < 40:
            loop.call_soon(look)

    for number in range(40):
        pace.add(partial(done.append, number))
    assert done == []
    loop.call_soon(look)
    while len(done) < 40:
        await asyncio.sleep(0)
    assert done == list(range(40))
    assert turns[:3] == [AT_ONCE, 2 * AT_ONCE, 40]


async def test_a_call_that_ends_before_its_turn_leaves_the_cancellation_of_another_alone() -> None:
    """What is counted is the cancellations that the task still has to obey."""
    call = Call("call-1", "chat/completions", CallClock(SystemClock(), 0.0), 0.0, "")
    interruption, task = RunningCalls().entered(call), asyncio.current_task()
    assert task is not None
    with interruption:
        interruption.interrupt(Interrupted(Reason.CLIENT_GONE))
        task.cancel()  # by somebody else
    assert task.cancelling() == 1
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(0)
    task.uncancel()
