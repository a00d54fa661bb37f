"""The shared quota store: one Lua call for each operation, each idempotent by call id.

All keys of a tenant lie under one hash tag, time is the server's, and no operation takes longer
than ``timeout_s``: nothing is retried here. Whatever goes wrong is a StoreFault; ``degraded``
decides what happens then. Leases end ``LEASE_S`` after the last reserve or renew.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, NamedTuple

from gateway.core.clock import Clock
from gateway.core.limits.book import LEASE_S, kind_of
from gateway.core.limits.bucket import LATE_SETTLE_S, state_of, wait_s
from gateway.core.limits.demands import (
    BucketKey,
    BucketState,
    Demand,
    Kind,
    Refused,
    Reservation,
    tenant_of_owner,
)
from gateway.stores import scripts
from gateway.stores.faults import FOREIGN, FaultKind, fault_of
from gateway.stores.last_known import CAPACITY, LastKnown
from gateway.stores.resp import RespClient, Word, address_of
from gateway.stores.scripts import Script

TIMEOUT_S = 0.2
RENEWED_AT_ONCE = 200  # about 1 ms of the server
REMEMBER_S = 3_600  # how long the id of a settled call is kept
DAY_S = 86_400
BUDGET = "B"
LETTER = {Kind.RATE: "R", Kind.BUDGET: BUDGET, Kind.LEVEL: "L"}
FOR_EVER = 0
LIVES_S = {"day": 2 * DAY_S, "month": 33 * DAY_S, "credit": FOR_EVER}
DOES_NOT_FIT, HELD, SETTLED_BEFORE = 0, 1, 2  # outcomes of reserve.lua


class _Name(NamedTuple):
    """What the scripts call a bucket."""

    text: str
    bucket: str  # the key of its hash
    letter: str
    lives_s: int


class RedisStore:
    """Every method but ``aclose`` and ``seed`` raises StoreFault. ``open``: the calls that this
    process renews."""

    def __init__(
        self,
        url: str,
        clock: Clock,
        *,
        timeout_s: float = TIMEOUT_S,
        namespace: str = "fw",
        lease_s: float = LEASE_S,
    ) -> None:
        self._clock = clock
        self._namespace = namespace
        self._lease_s = lease_s
        self.known = LastKnown()
        self.open: dict[str, tuple[Demand, ...]] = {}
        self._names: dict[BucketKey, _Name] = {}
        self._client = RespClient(address_of(url), timeout_s)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def reserve(self, call_id: str, demands: tuple[Demand, ...]) -> Reservation | Refused:
        outcome, states = await self._reserve(call_id, demands, adopt=False)
        if outcome == DOES_NOT_FIT:
            return _refused(demands, states)
        if outcome == HELD:
            self.open[call_id] = demands
        return Reservation(call_id, states)

    async def adopt(self, call_id: str, demands: tuple[Demand, ...]) -> None:
        """Holds what a running call holds, whether it fits or not; a settled call holds nothing."""
        await self._reserve(call_id, demands, adopt=True)

    async def settle(self, call_id: str, actual: Mapping[BucketKey, float] | None) -> None:
        """A call of another process that is abandoned is left to its lease."""
        charges = actual or {}
        tenant = tenant_of(self.open.pop(call_id, ()), charges)
        if tenant is not None:
            await self.settle_for(tenant, call_id, charges)

    async def settle_for(
        self, tenant: str, call_id: str, charges: Mapping[BucketKey, float]
    ) -> None:
        prefix = self._prefix(tenant)
        keys = [f"{prefix}leases", f"{prefix}call:{call_id}"]
        words: list[Word] = [prefix, call_id, REMEMBER_S]
        budgets = False
        for key, amount in charges.items():
            name = self._named(key)
            keys.append(name.bucket)
            words += (name.letter, amount, self.known.get(key).used, name.lives_s)
            budgets = budgets or name.letter == BUDGET
        used = await self._run(scripts.SETTLE, keys, words, lazily=True)
        if budgets:
            self._raise_known(charges, used)

    def _raise_known(self, charges: Mapping[BucketKey, float], used: Sequence[bytes]) -> None:
        now_s = self._clock.monotonic()
        for key, total in zip(charges, used, strict=False):  # none: settled before
            if kind_of(key) is Kind.BUDGET:
                self.known.raise_to(key, float(total), now_s)

    async def renew(self, call_ids: tuple[str, ...]) -> None:
        """Calls whose lease is gone, because it ran out or the server lost its data, hold again. In
        pieces, since the server does nothing else during a script, nor the loop while it writes."""
        for start in range(0, len(call_ids), RENEWED_AT_ONCE):
            await self._renew_some(call_ids[start : start + RENEWED_AT_ONCE])

    async def _renew_some(self, call_ids: tuple[str, ...]) -> None:
        of_tenant: dict[str, list[str]] = {}
        for call_id in call_ids:
            tenant = tenant_of(self.open.get(call_id, ()), {})
            if tenant is not None:
                of_tenant.setdefault(tenant, []).append(call_id)
        for tenant, ids in of_tenant.items():
            words: list[Word] = [self._lease_s, *ids]
            for lost in await self._run(scripts.RENEW, [self._prefix(tenant) + "leases"], words):
                demands = self.open.get(lost.decode())
                if demands is not None:
                    await self.adopt(lost.decode(), demands)

    async def peek(self, demands: tuple[Demand, ...]) -> tuple[BucketState, ...]:
        """Of one tenant."""
        tenant = tenant_of(demands, {})
        if tenant is None:
            return ()
        prefix = self._prefix(tenant)
        keys = [f"{prefix}leases", *(f"{prefix}b:{d.key}" for d in demands)]
        words: list[Word] = [prefix]
        for demand in demands:
            words += [LETTER[demand.kind], str(demand.key)]
        return self._states(demands, await self._run(scripts.PEEK, keys, words))

    async def seed(self, key: BucketKey, used: float) -> None:
        """Every later reserve raises the bucket to this, also after the server lost its data."""
        self.known.raise_to(key, used, self._clock.monotonic())

    async def probe(self) -> None:
        """Succeeds only when the server takes writes."""
        await _told(self._client.ask("SET", f"{self._namespace}:probe", 1, "EX", 60))

    async def _reserve(
        self, call_id: str, demands: tuple[Demand, ...], *, adopt: bool
    ) -> tuple[int, tuple[BucketState, ...]]:
        tenant = tenant_of(demands, {})
        if tenant is None:
            return SETTLED_BEFORE, ()
        prefix = self._prefix(tenant)
        keys = [f"{prefix}leases", f"{prefix}call:{call_id}"]
        words: list[Word] = [prefix, call_id, self._lease_s, REMEMBER_S, int(adopt)]
        for d in demands:
            name = self._named(d.key)
            keys.append(name.bucket)
            words += (name.letter, name.text, d.capacity, d.amount, d.window_s)
            words += (self.known.get(d.key).used, _lives_s(d))
        outcome, numbers = await self._run(scripts.RESERVE, keys, words)
        states = self._states(demands, numbers)
        self.known.note(states, self._clock.monotonic())
        return outcome, states

    def _states(
        self, demands: tuple[Demand, ...], numbers: Sequence[bytes]
    ) -> tuple[BucketState, ...]:
        states = []
        for number, demand in enumerate(demands):
            used, held = float(numbers[2 * number]), float(numbers[2 * number + 1])
            if demand.kind is Kind.BUDGET:
                used = max(used, self.known.get(demand.key).used)
            states.append(state_of(demand.key, demand, used, held))
        return tuple(states)

    def _named(self, key: BucketKey) -> _Name:
        name = self._names.get(key)
        if name is None:
            if len(self._names) >= CAPACITY:
                self._names.clear()
            bucket = f"{self._prefix(key.tenant)}b:{key}"
            lives_s = LIVES_S.get(key.meter, DAY_S)
            name = self._names[key] = _Name(str(key), bucket, LETTER[kind_of(key)], lives_s)
        return name

    def _prefix(self, tenant: str) -> str:
        return f"{self._namespace}:{{{tenant}}}:"

    async def _run(
        self, script: Script, keys: list[str], words: list[Word], *, lazily: bool = False
    ) -> Any:
        """A server that has forgotten the script gets its text in the same step. ``lazily``: with
        the next command, in a moment at the latest, but never after one that comes later."""
        until_s = self._client.latest_s
        arguments = (len(keys), *keys, *words)
        try:
            return await self._client.ask(
                "EVALSHA", script.digest, *arguments, until_s=until_s, lazily=lazily
            )
        except FOREIGN as error:
            fault = fault_of(error)
            if fault.kind is not FaultKind.NO_SCRIPT:
                raise fault from error
        return await _told(self._client.ask("EVAL", script.text, *arguments, until_s=until_s))


async def _told(answer: Awaitable[Any]) -> Any:
    """Raises StoreFault."""
    try:
        return await answer
    except FOREIGN as error:
        raise fault_of(error) from error


def tenant_of(demands: Sequence[Demand], charges: Mapping[BucketKey, float]) -> str | None:
    """Whose buckets these are: all of one tenant."""
    owners = {demand.key.owner for demand in demands} | {key.owner for key in charges}
    tenants = {tenant_of_owner(owner) for owner in owners}
    assert len(tenants) <= 1, f"one call, several tenants: {sorted(tenants)}"
    return next(iter(tenants), None)


def _lives_s(demand: Demand) -> int:
    """After which an untouched bucket is forgotten, and with it a debt above a day's refill."""
    if demand.kind is not Kind.BUDGET:
        return DAY_S
    return math.ceil(demand.resets_in_s + LATE_SETTLE_S) if demand.key.period else FOR_EVER


def _refused(demands: tuple[Demand, ...], states: tuple[BucketState, ...]) -> Refused:
    waits = [
        (wait, demand, state)
        for demand, state in zip(demands, states, strict=True)
        if (wait := wait_s(demand, state.used, state.held)) is not None
    ]
    wait, demand, state = max(waits, key=lambda entry: entry[0])
    return Refused(demand, demand.capacity, state.used + state.held, demand.amount, wait)
