"""What every quota store does, in memory and in Redis alike."""

from __future__ import annotations

import asyncio

import pytest

from gateway.core.limits.demands import (
    BucketState,
    Demand,
    QuotaStore,
    Refused,
    Reservation,
)
from gateway.core.reasons import Reason
from tests.stores.conftest import LEASE_S
from tests.stores.factories import HOUR_S, call_id, demand


async def peek(store: QuotaStore, *demands: Demand) -> list[BucketState]:
    return list(await store.peek(demands))


async def test_reservation_lowers_what_remains_and_says_so(store: QuotaStore) -> None:
    """G23: remaining falls."""
    answer = await store.reserve(call_id(), (demand("tpm", 30, 100),))
    assert isinstance(answer, Reservation)
    assert answer.buckets[0].limit == 100
    assert answer.buckets[0].remaining == pytest.approx(70, abs=0.1)


async def test_third_call_of_two_that_fit_is_refused_with_figures(store: QuotaStore) -> None:
    """G1, G23: the refusal names limit, use, need and a computed wait."""
    asked = (demand("tpm", 40, 100, window_s=60),)
    await store.reserve(call_id(), asked)
    await store.reserve(call_id(), asked)
    refused = await store.reserve(call_id(), asked)
    assert isinstance(refused, Refused)
    assert refused.demand.reason is Reason.TOKENS_PER_MINUTE
    assert (refused.limit, refused.needed) == (100, 40)
    assert refused.used == pytest.approx(80, abs=1)
    assert refused.wait_s == pytest.approx((80 + 40 - 100) * 60 / 100, abs=1)


async def test_call_that_waited_as_told_is_admitted(store: QuotaStore) -> None:
    """G23: the wait is neither constant nor too short."""
    asked = (demand("tpm", 100, 100, window_s=0.2),)
    await store.reserve(call_id(), asked)
    refused = await store.reserve(call_id(), asked)
    assert isinstance(refused, Refused)
    await asyncio.sleep(refused.wait_s)
    assert isinstance(await store.reserve(call_id(), asked), Reservation)


async def test_refusal_leaves_every_bucket_untouched(store: QuotaStore) -> None:
    """G2: all buckets of a call in one step, or none."""
    wide, narrow = demand("day", 10, 100), demand("concurrent", 1, 1)
    await store.reserve(call_id(), (narrow,))
    assert isinstance(await store.reserve(call_id(), (wide, narrow)), Refused)
    assert (await peek(store, wide))[0].held == 0


async def test_of_several_refusals_the_longest_wait_is_told(store: QuotaStore) -> None:
    concurrent, day = demand("concurrent", 1, 1), demand("day", 100, 100)
    first = call_id()
    await store.reserve(first, (concurrent, day))
    await store.settle(first, {day.key: 100})
    await store.reserve(call_id(), (concurrent,))
    refused = await store.reserve(call_id(), (concurrent, day))
    assert isinstance(refused, Refused)
    assert refused.demand.reason is Reason.DAILY_BUDGET
    assert refused.wait_s == HOUR_S


async def test_budget_for_one_call_passes_one_of_twenty(store: QuotaStore) -> None:
    """G6."""
    asked = (demand("credit", 100, 100),)
    answers = await asyncio.gather(*(store.reserve(call_id(), asked) for _ in range(20)))
    assert sum(isinstance(answer, Reservation) for answer in answers) == 1


async def test_five_calls_larger_than_the_bucket_are_admitted_one_at_a_time(
    store: QuotaStore,
) -> None:
    """G2, G3: 175 tokens at 100 per minute, reservations clamped to the bucket."""
    asked = (demand("tpm", 100, 100),)
    calls = [call_id() for _ in range(5)]
    answers = await asyncio.gather(*(store.reserve(call, asked) for call in calls))
    assert sum(isinstance(answer, Reservation) for answer in answers) == 1


async def test_settle_replaces_the_reservation_by_what_was_used(store: QuotaStore) -> None:
    rate, budget = demand("tpm", 80, 100), demand("day", 80, 100)
    call = call_id()
    await store.reserve(call, (rate, budget))
    await store.settle(call, {rate.key: 25, budget.key: 25})
    after = await peek(store, rate, budget)
    assert [state.used for state in after] == pytest.approx([25, 25], abs=0.1)
    assert [state.held for state in after] == [0, 0]


async def test_underestimate_becomes_a_debt_that_refill_pays_off(store: QuotaStore) -> None:
    """G3: a debt delays the next call, it does not refuse it for ever."""
    asked = demand("tpm", 50, 100, window_s=60)
    call = call_id()
    await store.reserve(call, (asked,))
    await store.settle(call, {asked.key: 175})
    refused = await store.reserve(call_id(), (asked,))
    assert isinstance(refused, Refused)
    assert refused.used == pytest.approx(175, abs=1)
    assert refused.wait_s == pytest.approx((175 + 50 - 100) * 60 / 100, abs=1)


async def test_settlement_that_nobody_awaits_is_met_by_the_next_call(store: QuotaStore) -> None:
    asked, first, second = (demand("tpm", 60, 100),), call_id(), call_id()
    await store.reserve(first, asked)
    store.settle(first, {asked[0].key: 10})
    assert isinstance(await store.reserve(second, asked), Reservation)


async def test_second_settle_changes_nothing(store: QuotaStore) -> None:
    budget = demand("day", 50, 100)
    call = call_id()
    await store.reserve(call, (budget,))
    await store.settle(call, {budget.key: 20})
    await store.settle(call, {budget.key: 20})
    await store.settle(call, None)
    assert (await peek(store, budget))[0].used == 20


async def test_rate_bucket_tells_what_running_calls_hold(store: QuotaStore) -> None:
    """What remains is the same whoever has it."""
    rate = demand("tpm", 30, 100)
    ended, running = call_id(), call_id()
    for call in (ended, running):
        await store.reserve(call, (rate,))
    await store.settle(ended, {rate.key: 20})
    (state,) = await peek(store, rate)
    assert (state.used, state.held) == pytest.approx((20, 30), abs=0.1)
    assert state.remaining == pytest.approx(50, abs=0.1)
    await store.settle(running, None)
    (state,) = await peek(store, rate)
    assert (state.used, state.held) == pytest.approx((20, 0), abs=0.1)


async def test_hold_of_a_rate_bucket_drains_with_its_level(store: QuotaStore) -> None:
    rate = demand("tpm", 100, 100, window_s=0.2)
    await store.reserve(call_id(), (rate,))
    await asyncio.sleep(0.3)
    (state,) = await peek(store, rate)
    assert (state.used, state.held, state.remaining) == (0, 0, 100)


async def test_abandoned_call_charges_nothing(store: QuotaStore) -> None:
    demands = (demand("tpm", 50, 100), demand("day", 50, 100), demand("concurrent", 1, 2))
    call = call_id()
    await store.reserve(call, demands)
    await store.settle(call, None)
    assert [(s.used, s.held) for s in await peek(store, *demands)] == [(0, 0)] * 3


async def test_same_call_reserved_again_is_held_once(store: QuotaStore) -> None:
    asked = demand("concurrent", 1, 1)
    call = call_id()
    first = await store.reserve(call, (asked,))
    again = await store.reserve(call, (asked,))
    assert isinstance(first, Reservation)
    assert isinstance(again, Reservation)
    assert (await peek(store, asked))[0].held == 1


async def test_call_reserved_after_its_settle_holds_nothing(store: QuotaStore) -> None:
    """A reserve that was delayed on its way must not outlive the call."""
    asked = demand("concurrent", 1, 1)
    call = call_id()
    await store.reserve(call, (asked,))
    await store.settle(call, {})
    await store.reserve(call, (asked,))
    assert (await peek(store, asked))[0].held == 0


async def test_settle_of_an_unknown_call_charges_it_once(store: QuotaStore) -> None:
    """A store that lost its data still gets the charges of running calls."""
    budget = demand("day", 10, 100)
    call = call_id()
    await store.settle(call, {budget.key: 30})
    await store.settle(call, {budget.key: 30})
    assert (await peek(store, budget))[0].used == 30


async def test_lease_of_a_dead_process_ends_and_a_renewed_one_does_not(
    short_leases: QuotaStore,
) -> None:
    """G4, row 32."""
    slot = demand("concurrent", 1, 2)
    dead, alive = call_id(), call_id()
    await short_leases.reserve(dead, (slot,))
    await short_leases.reserve(alive, (slot,))
    for _ in range(3):
        await asyncio.sleep(LEASE_S / 2)
        await short_leases.renew((alive,))
    assert (await peek(short_leases, slot))[0].held == 1


async def test_expired_hold_of_every_kind_is_given_back(short_leases: QuotaStore) -> None:
    """G4: whatever a crashed process held is free again."""
    demands = (demand("tpm", 50, 100), demand("day", 50, 100), demand("concurrent", 1, 1))
    await short_leases.reserve(call_id(), demands)
    await asyncio.sleep(LEASE_S + 0.1)
    assert isinstance(await short_leases.reserve(call_id(), demands), Reservation)
    held = [s.held for s in await peek(short_leases, *demands)]
    assert held == pytest.approx([50, 50, 1], abs=0.1)


async def test_late_renewal_revives_an_expired_hold(short_leases: QuotaStore) -> None:
    """A process that was frozen longer than its leases still runs its calls."""
    demands = (demand("day", 50, 100), demand("concurrent", 1, 5))
    call = call_id()
    await short_leases.reserve(call, demands)
    await asyncio.sleep(LEASE_S + 0.1)
    await short_leases.reserve(call_id(), (demand("concurrent", 1, 5),))
    await short_leases.renew((call,))
    assert [s.held for s in await peek(short_leases, *demands)] == [50, 2]


async def test_expired_call_is_charged_what_it_used(short_leases: QuotaStore) -> None:
    demands = (demand("day", 50, 100), demand("concurrent", 1, 5))
    call = call_id()
    await short_leases.reserve(call, demands)
    await asyncio.sleep(LEASE_S + 0.1)
    await short_leases.settle(call, {demands[0].key: 20})
    assert [(s.used, s.held) for s in await peek(short_leases, *demands)] == [(20, 0), (0, 0)]


async def test_seeding_is_a_floor_and_may_be_repeated(store: QuotaStore) -> None:
    """A total from the ledger outlives the loss of the store."""
    budget = demand("month", 30, 100)
    for total in (80.0, 80.0, 10.0):
        await store.seed(budget.key, total)
    assert isinstance(await store.reserve(call_id(), (budget,)), Refused)
    assert (await peek(store, budget))[0].used == 80


async def test_raised_limit_admits_at_once_and_lowered_limit_refuses(store: QuotaStore) -> None:
    await store.reserve(call_id(), (demand("tpm", 100, 100),))
    assert isinstance(await store.reserve(call_id(), (demand("tpm", 100, 200),)), Reservation)
    assert isinstance(await store.reserve(call_id(), (demand("tpm", 10, 50),)), Refused)


async def test_organization_and_key_limits_hold_together(store: QuotaStore) -> None:
    organization = demand("rpm", 1, 10)
    first, second = demand("rpm", 1, 1, key_id="k1"), demand("rpm", 1, 1, key_id="k2")
    assert isinstance(await store.reserve(call_id(), (organization, first)), Reservation)
    assert isinstance(await store.reserve(call_id(), (organization, first)), Refused)
    assert isinstance(await store.reserve(call_id(), (organization, second)), Reservation)
    assert (await peek(store, organization))[0].held == pytest.approx(2, abs=0.1)


async def test_tenants_do_not_share_buckets(store: QuotaStore) -> None:
    assert isinstance(await store.reserve(call_id(), (demand("rpm", 1, 1),)), Reservation)
    other = demand("rpm", 1, 1, tenant="other")
    assert isinstance(await store.reserve(call_id(), (other,)), Reservation)


async def test_call_without_limits_is_admitted(store: QuotaStore) -> None:
    call = call_id()
    answer = await store.reserve(call, ())
    await store.settle(call, {})
    assert isinstance(answer, Reservation)
    assert answer.buckets == ()


async def test_thousand_mixed_endings_leave_every_counter_at_zero(store: QuotaStore) -> None:
    """G17: the counter is the sum of live holds, never negative."""
    demands = (demand("concurrent", 1, 2_000), demand("day", 7, 1e9))

    async def one(number: int) -> None:
        call = call_id()
        await store.reserve(call, demands)
        if number % 3:
            await store.settle(call, {demands[1].key: 5})
        if number % 2 or not number % 3:
            await store.settle(call, None)

    await asyncio.gather(*(one(number) for number in range(1_000)))
    assert [s.held for s in await peek(store, *demands)] == [0, 0]
