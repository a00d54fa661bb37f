"""The shared quota store: one Lua call for each operation, each idempotent by call id.

All keys of a tenant lie under one hash tag, time is the server's, and no operation takes longer
than ``timeout_s``: nothing is retried here. Whatever goes wrong is a StoreFault; ``degraded``
decides what happens then. Leases end ``LEASE_S`` after the last reserve or renew.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from gateway.core.clock import Clock
from gateway.core.limits.book import LEASE_S, kind_of
from gateway.core.limits.bucket import LATE_SETTLE_S, state_of, wait_s
from gateway.core.limits.demands import (
    DONE,
    BucketKey,
    BucketState,
    Demand,
    Kind,
    Refused,
    Reservation,
    tenant_of_owner,
)
from gateway.stores import scripts
from gateway.stores.faults import FOREIGN, FaultKind, StoreFault, fault_of
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
DOES_NOT_FIT, HELD = 0, 1  # outcomes of reserve.lua
Ended = Callable[[StoreFault | None], None]


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

    async def drained(self) -> None:
        """Returns when what was begun has its answer."""
        await _told(self._client.drained())

    async def reserve(self, call_id: str, demands: tuple[Demand, ...]) -> Reservation | Refused:
        if not demands:
            return Reservation(call_id, ())
        keys, words = self._reserving(call_id, demands, adopt=False)
        outcome, numbers = await self._run(scripts.RESERVE, keys, words)
        states = self._seen(demands, numbers)
        if outcome == DOES_NOT_FIT:
            return _refused(demands, states)
        if outcome == HELD:
            self.open[call_id] = demands
        return Reservation(call_id, states)

    async def adopt(self, call_id: str, demands: tuple[Demand, ...]) -> None:
        """Holds what a running call holds, whether it fits or not; a settled call holds nothing."""
        keys, words = self._reserving(call_id, demands, adopt=True)
        _, numbers = await self._run(scripts.RESERVE, keys, words)
        self._seen(demands, numbers)

    def settle(self, call_id: str, actual: Mapping[BucketKey, float] | None) -> Awaitable[None]:
        """A call of another process that is abandoned is left to its lease."""
        charges = actual or {}
        tenant = tenant_of(self.open.pop(call_id, ()), charges)
        return DONE if tenant is None else self.settling(tenant, call_id, charges)

    def settling(
        self, tenant: str, call_id: str, charges: Mapping[BucketKey, float]
    ) -> asyncio.Future[None]:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def tell(fault: StoreFault | None) -> None:
            if ended.done():
                return
            if fault is None:
                ended.set_result(None)
            else:
                ended.set_exception(fault)

        self.settle_for(tenant, call_id, charges, tell)
        return ended

    def settle_for(
        self, tenant: str, call_id: str, charges: Mapping[BucketKey, float], ended: Ended
    ) -> None:
        """Leaves with the next command, in a moment at the latest, but never after one that comes
        later. ``ended`` is told what came of it, and must not raise."""
        prefix = f"{self._namespace}:{{{tenant}}}:"
        keys = [f"{prefix}leases", f"{prefix}call:{call_id}"]
        words: list[Word] = [prefix, call_id, REMEMBER_S]
        budgets = False
        for key, amount in charges.items():
            name = self._names.get(key) or self._named(key)
            keys.append(name.bucket)
            words += (name.letter, amount)
            if name.letter == BUDGET:
                words += (self.known.get(key).used, name.lives_s)
                budgets = True
            else:
                words += (0, name.lives_s)
        arguments = (len(keys), *keys, *words)
        settling = _Settling(self, arguments, charges if budgets else {}, ended)
        self._client.ask_lazily(("EVALSHA", scripts.SETTLE.digest, *arguments), settling)

    def settle_by_text(self, settling: _Settling, arguments: tuple[Word, ...]) -> None:
        """The server has forgotten the script."""
        self._client.ask_lazily(("EVAL", scripts.SETTLE.text, *arguments), settling)

    def raise_known(self, charges: Mapping[BucketKey, float], used: Sequence[bytes]) -> None:
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

    def _reserving(
        self, call_id: str, demands: tuple[Demand, ...], *, adopt: bool
    ) -> tuple[list[str], list[Word]]:
        """Keys and arguments of the script. ``demands``: at least one."""
        tenant = tenant_of_owner(demands[0].key.owner)
        prefix = f"{self._namespace}:{{{tenant}}}:"
        keys = [f"{prefix}leases", f"{prefix}call:{call_id}"]
        words: list[Word] = [prefix, call_id, self._lease_s, REMEMBER_S, int(adopt)]
        for d in demands:
            name = self._names.get(d.key) or self._named(d.key)
            keys.append(name.bucket)
            words += (name.letter, name.text, d.capacity, d.amount, d.window_s)
            if name.letter == BUDGET:
                words += (self.known.get(d.key).used, _lives_s(d))
            else:
                words += (0, DAY_S)
        return keys, words

    def _seen(
        self, demands: tuple[Demand, ...], numbers: Sequence[bytes]
    ) -> tuple[BucketState, ...]:
        states = self._states(demands, numbers)
        self.known.note(states, self._clock.monotonic())
        return states

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

    async def _run(self, script: Script, keys: list[str], words: list[Word]) -> Any:
        """A server that has forgotten the script gets its text in the same step."""
        until_s = self._client.latest_s
        arguments = (len(keys), *keys, *words)
        try:
            return await self._client.ask("EVALSHA", script.digest, *arguments, until_s=until_s)
        except FOREIGN as error:
            fault = fault_of(error)
            if fault.kind is not FaultKind.NO_SCRIPT:
                raise fault from error
        return await _told(self._client.ask("EVAL", script.text, *arguments, until_s=until_s))


class _Settling:
    """Hears the server's answer to one settlement."""

    __slots__ = ("_arguments", "_budgets", "_done", "_ended", "_store")

    def __init__(
        self,
        store: RedisStore,
        arguments: tuple[Word, ...],
        budgets: Mapping[BucketKey, float],
        ended: Ended,
    ) -> None:
        self._store = store
        self._arguments = arguments
        self._budgets = budgets
        self._ended = ended
        self._done = False

    def done(self) -> bool:
        return self._done

    def set_result(self, used: Sequence[bytes], /) -> None:
        self._done = True
        if self._budgets:
            self._store.raise_known(self._budgets, used)
        self._ended(None)

    def set_exception(self, error: BaseException, /) -> None:
        fault = fault_of(error)
        if fault.kind is FaultKind.NO_SCRIPT:
            self._store.settle_by_text(self, self._arguments)
            return
        self._done = True
        self._ended(fault)


async def _told(answer: Awaitable[Any]) -> Any:
    """Raises StoreFault."""
    try:
        return await answer
    except FOREIGN as error:
        raise fault_of(error) from error


def tenant_of(demands: Sequence[Demand], charges: Mapping[BucketKey, float]) -> str | None:
    """Whose buckets these are: all of one tenant, as ``limits.plan`` makes them."""
    for demand in demands:
        return tenant_of_owner(demand.key.owner)
    for key in charges:
        return tenant_of_owner(key.owner)
    return None


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
