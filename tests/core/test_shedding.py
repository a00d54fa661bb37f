"""Who is refused when more comes than can be done in time: by the wait to be expected, lower
classes first, then the tenant furthest above its share, its newest call."""

from __future__ import annotations

from typing import Any

from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import Effect, Refuse, Usage
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason
from tests.core.factories import (
    BATCH,
    INTERACTIVE,
    STANDARD,
    config,
    dispatcher,
    granted_ids,
    refusals,
    ticket,
)

USAGE = Usage(100, 0, 0)


class Pool:
    """One slot. Calls cost 100 each and are worked off at 100 a second, which is known."""

    def __init__(self, **changes: Any) -> None:
        values = {"holdback_ratio": (1.0, 1.0, 1.0), "batch_every": 0, "aged_every": 0}
        self.pool: Dispatcher = dispatcher(config(1, 1, **{**values, **changes}))
        self.grant_id = 0
        for _ in range(12):
            self.ask(STANDARD, tenant="before")
        for second in range(1, 12):
            self.end(float(second))

    def ask(self, klass: PriorityClass, number: int = 1, **changes: Any) -> list[Refuse]:
        changes = {"tenant": "alice", "now_s": 0.0, **changes}
        now_s = changes.pop("now_s")
        effects: list[Effect] = []
        for _ in range(number):
            asked = ticket(klass=klass, input_tokens=100, output_tokens=0, **changes)
            effects += self.pool.submit(asked, now_s)
        return refusals(effects)

    def end(self, now_s: float) -> list[str]:
        self.grant_id += 1
        return granted_ids(self.pool.release(self.grant_id, USAGE, now_s))

    def waiting(self) -> dict[tuple[str, PriorityClass], int]:
        return self.pool.view().queued


def test_within_the_budget_nobody_is_refused() -> None:
    assert Pool().ask(INTERACTIVE, 8, now_s=11.0) == []


def test_the_call_that_would_wait_too_long_is_refused() -> None:
    """8 s = 4 * the objective of 2 s."""
    refused = Pool().ask(INTERACTIVE, 11, now_s=11.0)
    assert {refuse.reason for refuse in refused} == {Reason.SHED}
    assert len(refused) == 2  # the tenth and the eleventh would wait 9 s


def test_the_message_says_how_long_and_when() -> None:
    (refuse, *_) = Pool().ask(INTERACTIVE, 11, now_s=11.0)
    assert refuse.message.startswith(
        "Refused because of load: 9.0 s of work wait ahead of class interactive, at most 8.0 s do."
    )
    assert "Retry in" in refuse.message


def test_without_shedding_the_queue_grows_until_everybody_is_late() -> None:
    assert Pool(shed_wait_ratio=0.0).ask(INTERACTIVE, 100, now_s=11.0) == []


def test_queued_calls_of_lower_classes_go_first() -> None:
    pool = Pool()
    pool.ask(BATCH, 4, tenant="bulk", now_s=11.0)
    refused = pool.ask(INTERACTIVE, 12, now_s=11.0)
    assert pool.waiting()[("bulk", BATCH)] == 1  # what batch is owed stays
    assert ("alice", INTERACTIVE) in pool.waiting()
    assert "and class batch gives way" in refused[0].message


def test_a_lower_newcomer_is_refused_while_a_higher_class_is_over_its_budget() -> None:
    pool = Pool()
    pool.ask(INTERACTIVE, 12, now_s=11.0)
    (refuse,) = pool.ask(STANDARD, tenant="bob", now_s=11.1)
    assert refuse.reason is Reason.SHED
    assert "class standard gives way" in refuse.message


def test_the_tenant_furthest_above_its_share_loses_its_newest_call() -> None:
    """A light tenant is not refused because a heavy one fills the queue."""
    pool = Pool()
    pool.ask(INTERACTIVE, 9, tenant="heavy", now_s=11.0)
    pool.ask(INTERACTIVE, tenant="heavy", call_id="newest", now_s=11.0)
    refused = pool.ask(INTERACTIVE, tenant="light", now_s=11.0)
    assert ("light", INTERACTIVE) in pool.waiting()
    assert all(refuse.call_id.startswith(("call-", "newest")) for refuse in refused)
    assert pool.waiting()[("heavy", INTERACTIVE)] <= 8


def test_refusing_the_newcomer_whoever_it_is_would_hit_the_light_tenant() -> None:
    """The naive rule: whoever arrives at a full queue is refused."""
    pool = Pool(shed_wait_ratio=0.0, queue_calls_per_class=11)
    pool.ask(INTERACTIVE, 11, tenant="heavy", now_s=11.0)
    (refuse,) = pool.ask(INTERACTIVE, tenant="light", call_id="lights", now_s=11.0)
    assert refuse.call_id == "lights"


def test_a_weight_makes_room() -> None:
    pool = Pool(weights={"gold": 3.0})
    pool.ask(INTERACTIVE, 6, tenant="gold", now_s=11.0)
    pool.ask(INTERACTIVE, 5, tenant="bronze", now_s=11.0)
    waiting = pool.waiting()
    assert waiting[("gold", INTERACTIVE)] == 6
    assert waiting[("bronze", INTERACTIVE)] < 5


def test_a_conversation_that_goes_on_is_refused_after_those_that_begin() -> None:
    pool = Pool()
    pool.ask(INTERACTIVE, conversation=7, now_s=11.0)
    assert pool.end(12.0)
    pool.ask(INTERACTIVE, 8, now_s=12.0)
    pool.ask(INTERACTIVE, call_id="turn-2", conversation=7, now_s=12.0)
    refused = pool.ask(INTERACTIVE, 3, now_s=12.0)
    assert refused
    assert "turn-2" not in {refuse.call_id for refuse in refused}


def test_a_deadline_that_cannot_be_met_is_refused_at_once() -> None:
    pool = Pool()
    pool.ask(INTERACTIVE, 5, now_s=11.0)
    (refuse,) = pool.ask(INTERACTIVE, call_id="hasty", deadline_s=13.0, now_s=11.0)
    assert (refuse.call_id, refuse.reason) == ("hasty", Reason.SHED)


def test_a_light_tenants_deadline_is_judged_by_its_own_turn() -> None:
    pool = Pool()
    pool.ask(INTERACTIVE, 5, tenant="heavy", now_s=11.0)
    assert pool.ask(INTERACTIVE, tenant="light", deadline_s=13.0, now_s=11.0) == []


def test_a_callers_own_objective_is_its_budget() -> None:
    pool = Pool()
    pool.ask(INTERACTIVE, 5, now_s=11.0)
    (refuse,) = pool.ask(INTERACTIVE, call_id="hasty", ttft_objective_s=0.5, now_s=11.0)
    assert refuse.call_id == "hasty"


def test_no_interactive_call_is_refused_while_batch_runs_above_its_minimum() -> None:
    pool = Pool(standing_queue_ratio=0.1)
    pool.end(12.0)
    pool.ask(BATCH, tenant="bulk", now_s=12.0)
    assert pool.waiting() == {}
    for step in range(60):  # stands for 3 s, above 0.2 s and below 8
        now_s = 12.0 + step * 0.05
        assert pool.ask(INTERACTIVE, number=int(step < 6), now_s=now_s) == []


def test_a_queue_that_stands_is_cut_to_half_the_objective() -> None:
    pool = Pool(standing_queue_ratio=0.25)
    refused = []
    for step in range(40):
        now_s = 11.0 + step * 0.25
        refused += pool.ask(INTERACTIVE, now_s=now_s)
        if step % 4 == 3:
            pool.end(now_s)
    assert refused
    assert sum(pool.waiting().values()) <= 3


def test_a_call_that_asks_again_is_not_refused() -> None:
    pool = Pool()
    pool.ask(INTERACTIVE, 15, now_s=11.0)
    assert pool.ask(INTERACTIVE, again=True, now_s=11.0) == []


def test_a_call_that_returns_to_its_booking_is_not_refused_again() -> None:
    pool = Pool()
    pool.ask(INTERACTIVE, 9, tenant="heavy", now_s=11.0)
    (refuse,) = pool.ask(INTERACTIVE, tenant="heavy", prompt_hash=5, now_s=11.0)
    assert refuse.retry_after_s is not None
    back_s = 11.0 + refuse.retry_after_s
    pool.ask(INTERACTIVE, 9, tenant="other", now_s=back_s)
    assert pool.ask(INTERACTIVE, tenant="heavy", prompt_hash=5, now_s=back_s) == []


def test_the_overload_flag_clears_with_its_cause() -> None:
    """R23."""
    pool = Pool()
    pool.ask(INTERACTIVE, 30, now_s=11.0)
    for second in range(12, 25):
        if not pool.end(float(second)):
            break
    assert pool.ask(STANDARD, tenant="bob", now_s=30.0) == []
    assert pool.ask(INTERACTIVE, 2, now_s=30.0) == []
    assert pool.pool.view().saturation_ratio <= 2.0
