"""How much may wait: per tenant in its class, per class, in calls and bytes."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.queues.call import QueuedCall
from gateway.core.queues.lane import ANYWHERE
from gateway.core.queues.load import FullQueue, QueueLoad
from tests.core.factories import BATCH, INTERACTIVE, STANDARD, config, ticket


def loaded(*calls: QueuedCall) -> QueueLoad:
    load = QueueLoad()
    for call in calls:
        load.add(call)
    return load


def call(tenant: str = "alice", cost: float = 0.1, **changes: Any) -> QueuedCall:
    return QueuedCall(ticket(tenant, **changes), ANYWHERE, 0, 0.0, 1e9, cost)


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        ({"queue_calls_per_tenant": 1}, FullQueue("this tenant", 1, 1, "calls")),
        ({"queue_bytes_per_tenant": 799}, FullQueue("this tenant", 799, 400, "bytes")),
        ({"queue_calls_per_class": 1}, FullQueue("this class", 1, 1, "calls")),
        ({"queue_bytes_per_class": 799}, FullQueue("this class", 799, 400, "bytes")),
        ({"queue_bytes_per_class": 800, "queue_calls_per_class": 2}, None),
    ],
)
def test_the_bound_that_one_more_call_would_exceed(
    bound: dict[str, int], expected: FullQueue | None
) -> None:
    assert loaded(call()).bound_reached(ticket(), config(**bound)) == expected


def test_a_tenants_batch_does_not_fill_its_interactive_queue() -> None:
    load = loaded(call(klass=BATCH))
    assert load.bound_reached(ticket(klass=INTERACTIVE), config(queue_calls_per_tenant=1)) is None


def test_the_cost_ahead_is_that_of_the_class_and_those_above() -> None:
    load = loaded(
        call(klass=INTERACTIVE, cost=1.0),
        call(klass=STANDARD, cost=10.0),
        call(klass=BATCH, cost=100.0),
    )
    assert [load.cost_ahead(klass) for klass in (INTERACTIVE, STANDARD, BATCH)] == [1, 11, 111]


def test_counts_are_exactly_zero_when_nothing_waits() -> None:
    """R32: every way out of the queue subtracts what the way in has added."""
    calls = [call(cost=0.1 * number) for number in range(50)]
    load = loaded(*calls)
    for each in calls:
        load.subtract(each)
    assert load.by_flow == {}
    assert load.by_class[STANDARD].cost == 0.0
    assert load.by_class[STANDARD].body_bytes == 0
