"""Interactive before standard before batch, and the two exceptions, exactly."""

from __future__ import annotations

from gateway.core.priority import PriorityClass
from gateway.core.queues.call import QueuedCall
from gateway.core.queues.class_order import ClassOrder
from gateway.core.queues.lane import ANYWHERE
from tests.core.factories import BATCH, INTERACTIVE, STANDARD, config, ticket


class Waiting(dict[PriorityClass, QueuedCall]):
    """Implements ``Heads``."""

    def oldest_s(self, klass: PriorityClass) -> float | None:
        return self[klass].queued_s if klass in self else None


def heads(*classes: PriorityClass, waited_s: float = 0.0) -> Waiting:
    return Waiting(
        (klass, QueuedCall(ticket("a", klass), ANYWHERE, klass, 1000.0 - waited_s, 1e9, 1.0))
        for klass in classes
    )


def together(*waiting: Waiting) -> Waiting:
    return Waiting(item for each in waiting for item in each.items())


def dispatch(order: ClassOrder, waiting: Waiting, times: int) -> list[tuple[str, str]]:
    served = []
    for _ in range(times):
        choice = order.choose(waiting, 1000.0)
        assert choice is not None
        order.dispatched(choice, batch_waits=BATCH in waiting)
        served.append((choice.call.ticket.klass.label, choice.rule))
    return served


def test_the_highest_class_with_a_head_goes() -> None:
    order = ClassOrder(config())
    assert dispatch(order, heads(INTERACTIVE, STANDARD), 3) == [("interactive", "strict")] * 3
    assert dispatch(order, heads(STANDARD, BATCH), 1) == [("standard", "strict")]


def test_nothing_waits() -> None:
    assert ClassOrder(config()).choose(Waiting(), 0.0) is None


def test_waiting_batch_gets_exactly_every_twentieth_dispatch() -> None:
    """R18."""
    served = dispatch(ClassOrder(config()), heads(INTERACTIVE, STANDARD, BATCH), 100)
    batch_at = [number for number, entry in enumerate(served, 1) if entry[0] == "batch"]
    assert batch_at == [20, 40, 60, 80, 100]
    assert served[19] == ("batch", "batch_share")


def costing(waiting: Waiting, cost: float) -> Waiting:
    for call in waiting.values():
        call.cost = cost
    return waiting


def test_batch_gets_a_twentieth_of_the_service_whatever_its_calls_cost() -> None:
    for batch_cost in (0.25, 1.0, 40.0):
        waiting = together(heads(INTERACTIVE), costing(heads(BATCH), batch_cost))
        served = [label for label, _ in dispatch(ClassOrder(config()), waiting, 4_000)]
        batch = batch_cost * served.count("batch")
        assert abs(batch / (batch + served.count("interactive")) - 0.05) <= 0.01, batch_cost


def test_what_a_batch_call_takes_above_its_estimate_is_owed_back() -> None:
    order, waiting = ClassOrder(config()), heads(INTERACTIVE, BATCH)
    dispatch(order, waiting, 20)
    order.corrected(4.0)  # five times its estimate in all
    served = [label for label, _ in dispatch(order, waiting, 100)]
    assert served.index("batch") == 95


def test_an_aged_head_that_costs_more_waits_longer_for_the_next() -> None:
    waiting = together(heads(INTERACTIVE), costing(heads(STANDARD, waited_s=30.0), 5.0))
    served = dispatch(ClassOrder(config()), waiting, 60)
    aged_at = [number for number, entry in enumerate(served, 1) if entry[1] == "aged"]
    assert aged_at == [1, 47]


def test_batch_saves_nothing_up_while_it_does_not_wait() -> None:
    order = ClassOrder(config())
    dispatch(order, heads(INTERACTIVE), 50)
    served = dispatch(order, heads(INTERACTIVE, BATCH), 20)
    assert [entry[0] for entry in served].index("batch") == 19


def test_an_aged_standard_head_gets_one_of_ten() -> None:
    waiting = together(heads(INTERACTIVE), heads(STANDARD, waited_s=30.0))
    served = dispatch(ClassOrder(config()), waiting, 31)
    aged_at = [number for number, entry in enumerate(served, 1) if entry[1] == "aged"]
    assert aged_at == [1, 11, 21, 31]


def test_a_standard_head_is_not_aged_before_thirty_seconds() -> None:
    waiting = together(heads(INTERACTIVE), heads(STANDARD, waited_s=29.9))
    assert {entry[1] for entry in dispatch(ClassOrder(config()), waiting, 20)} == {"strict"}


def test_aged_heads_of_both_classes_share_the_tenth_the_oldest_first() -> None:
    waiting = together(
        heads(INTERACTIVE), heads(STANDARD, waited_s=31.0), heads(BATCH, waited_s=121.0)
    )
    served = dispatch(ClassOrder(config()), waiting, 10)
    assert [entry for entry in served if entry[1] == "aged"] == [("batch", "aged")]


class TestHeldBack:
    def test_a_held_class_waits(self) -> None:
        order = ClassOrder(config())
        assert order.choose(heads(BATCH), 1000.0, {BATCH}) is None
        choice = order.choose(heads(INTERACTIVE, BATCH), 1000.0, {BATCH})
        assert choice is not None
        assert choice.call.ticket.klass is INTERACTIVE

    def test_the_exceptions_pass_the_holdback(self) -> None:
        order = ClassOrder(config())
        dispatch(order, heads(INTERACTIVE, BATCH), 19)
        choice = order.choose(heads(BATCH), 1000.0, {BATCH})
        assert choice is not None
        assert choice.rule == "batch_share"
        aged = ClassOrder(config()).choose(heads(STANDARD, waited_s=31.0), 1000.0, {STANDARD})
        assert aged is not None
        assert aged.rule == "aged"


def test_zero_turns_the_exceptions_off() -> None:
    order = ClassOrder(config(batch_every=0, aged_every=0))
    waiting = together(heads(INTERACTIVE), heads(STANDARD, BATCH, waited_s=500.0))
    assert {entry[1] for entry in dispatch(order, waiting, 60)} == {"strict"}
