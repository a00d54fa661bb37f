"""A tenant's part of one replica's batch while others wait: the larger of cost and KV."""

from __future__ import annotations

from typing import Any

from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import Grant, Usage
from tests.core.factories import config, dispatcher, granted_ids, ticket

SHORT = {"input_tokens": 200, "output_tokens": 100}
LONG = {"input_tokens": 30_000, "output_tokens": 100}


def pool(slots: int = 8, **changes: Any) -> Dispatcher:
    return dispatcher(config(1, slots, unstarted_calls=100, **changes))


def send(house: Dispatcher, tenant: str, number: int, **size: Any) -> list[str]:
    """Tenants' calls that were granted at once."""
    effects = [e for _ in range(number) for e in house.submit(ticket(tenant, **size), 0.0)]
    return granted_ids(effects)


def in_flight(house: Dispatcher, tenant: str) -> int:
    return sum(number for (name, _), number in house.view().in_flight.items() if name == tenant)


def test_alone_a_tenant_may_hold_the_whole_batch() -> None:
    house = pool()
    assert len(send(house, "long", 8, **LONG)) == 8


def test_while_others_wait_two_large_calls_are_the_most() -> None:
    house = pool(4)
    send(house, "first", 4, **SHORT)
    for _ in range(6):
        send(house, "long", 1, **LONG)
        send(house, "chat", 1, **SHORT)
    for grant_id in range(1, 5):
        house.release(grant_id, Usage(200, 0, 100), 1.0)
    assert in_flight(house, "long") <= 2
    assert in_flight(house, "chat") >= 2


def test_without_it_calls_that_stay_long_take_over_the_batch() -> None:
    """Equal costs, but one tenant's calls stay: the order alone gives it every other slot that
    becomes free, until it holds them all."""

    def held(ratio: float) -> int:
        house = pool(8, batch_share_ratio=ratio)
        send(house, "chat", 8, **SHORT)
        send(house, "slow", 20, **SHORT)
        send(house, "chat", 40, **SHORT)
        quick = list(range(1, 9))
        while quick and len(house._waiting) > 20:
            for grant in house.release(quick.pop(0), Usage(200, 0, 100), 1.0):
                assert isinstance(grant, Grant)
                if house._running[grant.grant_id].ticket.tenant == "chat":
                    quick.append(grant.grant_id)
        return in_flight(house, "slow")

    assert held(0.0) == 8
    assert held(1.25) <= 5


def test_when_every_waiting_tenant_is_at_its_share_no_slot_stays_empty() -> None:
    house = pool(8)
    send(house, "a", 8, **LONG)
    send(house, "b", 8, **LONG)
    assert house.view().replica_in_flight == {"r0": 8}
    assert len(granted_ids(house.release(1, Usage(30_000, 0, 100), 1.0))) == 1


def test_counts_are_exactly_gone_with_the_last_call() -> None:
    house = pool()
    send(house, "a", 4, **LONG)
    send(house, "b", 4, **SHORT)
    for grant_id in range(1, 9):
        house.release(grant_id, Usage(1, 0, 1), 1.0)
    assert house._running.share._batches == {}
