"""Batch gives a slot back to an interactive call that has waited, within its budget of waste."""

from __future__ import annotations

from typing import Any

from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import Effect, Preempt, Usage
from tests.core.factories import BATCH, INTERACTIVE, config, dispatcher, granted_ids, ticket

FAR_S = 1e9
OFF = (1.0, 1.0, 1.0)


def batch_pool(slots: int = 2, *, saved: float = 1e6, **changes: Any) -> Dispatcher:
    """Every slot runs a batch call, grants 1, 2 and so on. ``saved``: service completed before."""
    values = {"unstarted_calls": 100, "holdback_ratio": OFF, "preempt_waste_ratio": 1.0}
    pool = dispatcher(config(1, slots, **{**values, **changes}))
    for _ in range(slots):
        pool.submit(ticket("bulk", BATCH, deadline_s=FAR_S), 0.0)
    pool._running.preemption.budget = saved
    return pool


def preempted(effects: list[Effect]) -> list[int]:
    return [effect.grant_id for effect in effects if isinstance(effect, Preempt)]


def ask(pool: Dispatcher, now_s: float = 1.0) -> list[Effect]:
    return pool.submit(ticket("alice", INTERACTIVE, call_id=f"chat-{now_s}"), now_s)


def test_after_half_a_second_the_call_with_the_least_output_goes() -> None:
    pool = batch_pool(3)
    for grant_id, tokens in ((1, 30), (2, 10), (3, 20)):
        pool.progress(grant_id, tokens, 0.5)
    assert preempted(ask(pool)) == []
    assert pool.next_wake == 1.5
    assert preempted(pool.wake(1.5)) == [2]


def test_the_interactive_call_gets_the_slot_and_batch_asks_again() -> None:
    pool = batch_pool(1)
    ask(pool)
    (grant_id,) = preempted(pool.wake(1.5))
    assert granted_ids(pool.release(grant_id, None, 1.5, refund=True)) == ["chat-1.0"]
    again = ticket("bulk", BATCH, call_id="back", again=True, preemptions=1)
    assert pool.submit(again, 1.5) == []
    assert granted_ids(pool.release(2, Usage(100, 0, 50), 2.0)) == ["back"]


def test_one_at_a_time() -> None:
    pool = batch_pool(3)
    ask(pool, 1.0)
    ask(pool, 1.1)
    assert preempted(pool.wake(1.6)) == [1]
    assert preempted(pool.wake(2.0)) == []
    assert preempted(pool.release(1, None, 2.1, refund=True) + pool.wake(2.2)) == [2]


def test_what_was_relayed_is_never_lost() -> None:
    pool = batch_pool(1)
    pool.relayed(1, 0.5)
    ask(pool)
    assert preempted(pool.wake(5.0)) == []


def test_a_call_is_taken_back_at_most_twice() -> None:
    pool = batch_pool(1)
    pool.release(1, None, 0.0, refund=True)
    pool.submit(ticket("bulk", BATCH, again=True, preemptions=2), 0.0)
    ask(pool)
    assert preempted(pool.wake(5.0)) == []


def test_waste_stays_within_three_percent_of_what_was_completed() -> None:
    pool = batch_pool(1, saved=0.0, preempt_waste_ratio=0.03)
    ask(pool)
    assert preempted(pool.wake(2.0)) == []  # nothing was completed yet
    pool.release(1, Usage(10_000, 0, 0), 2.0)
    pool.release(2, Usage(100, 0, 50), 2.0)
    pool.submit(ticket("bulk", BATCH, deadline_s=FAR_S), 3.0)  # costs 100 by its first token
    ask(pool, 3.0)
    assert preempted(pool.wake(3.5)) == [3]  # 0.03 * 10,200 = 306
    pool.release(3, None, 3.5, refund=True)
    preemption = pool._running.preemption
    assert preemption.wasted <= 0.03 * 10_200
    assert preemption.budget >= 0.0


def test_interactive_and_standard_are_never_taken_back() -> None:
    pool = dispatcher(config(1, 1))
    pool._running.preemption.budget = 1e6
    pool.submit(ticket("alice"), 0.0)
    ask(pool)
    assert preempted(pool.wake(5.0)) == []


def test_a_call_that_batch_is_owed_is_spared() -> None:
    pool = batch_pool(1, batch_every=1)
    pool.submit(ticket("bulk", BATCH), 0.0)
    effects = pool.release(1, Usage(100, 0, 50), 0.5)
    assert granted_ids(effects)
    ask(pool)
    assert preempted(pool.wake(5.0)) == []


def test_without_a_full_replica_nothing_is_taken_back() -> None:
    """The unstarted rule makes it wait, not the slots."""
    pool = batch_pool(2, unstarted_calls=2, step_budget_tokens=0)
    pool.apply(config(1, 4, unstarted_calls=2, step_budget_tokens=0, preempt_waste_ratio=1.0), 0.5)
    ask(pool)
    assert preempted(pool.wake(5.0)) == []
