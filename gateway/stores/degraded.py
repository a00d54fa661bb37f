"""The shared quota store as the gateway uses it: while it is lost, a local share takes over.

- No method waits on the shared store longer than its timeout, and none at all once it is believed
  lost. A timeout means unknown: what was sent is settled again later, which is harmless.
- While lost: rate and level limits hold as a local share, budgets that fail closed raise
  StoreUnavailable, settlements wait in memory.
- When calls end faster than the server settles, what is beyond MOST_UNANSWERED waits in memory too
  and is sent as it answers: a crowd that leaves is no reason to believe the server lost.
- When it answers again: leases of running calls are renewed or taken anew, waiting settlements are
  sent, then it is trusted; at the latest two seconds after its return.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType

from gateway.core.clock import Clock
from gateway.core.limits.demands import (
    DONE,
    BucketKey,
    BucketState,
    Demand,
    Refused,
    Reservation,
)
from gateway.stores.breaker import Breaker, Trust
from gateway.stores.faults import StoreFault
from gateway.stores.local_share import LocalShare
from gateway.stores.redis import RedisStore, tenant_of
from gateway.stores.settlements import Settlement, Settlements

log = logging.getLogger(__name__)
SEND_BEFORE_TRUST_S = 0.5  # waiting settlements may delay the return to the shared store this long
SENT_AT_ONCE = 64
MOST_UNANSWERED = 192  # settlements; with more in its queue the server would look lost


class DegradingStore:
    """``async with``: closes ``shared`` at the end. ``why`` names the fault while it is lost."""

    def __init__(
        self,
        shared: RedisStore,
        clock: Clock,
        *,
        processes: int = 1,
        on_degraded: Callable[[str], None] = lambda why: None,
        on_restored: Callable[[], None] = lambda: None,
    ) -> None:
        self._shared = shared
        self._clock = clock
        self._processes = processes
        self._on_degraded = on_degraded
        self._on_restored = on_restored
        self._breaker = Breaker()
        self._share: LocalShare | None = None
        self._settlements = Settlements()
        self._unanswered = 0
        self._wake = asyncio.Event()
        self._watcher: asyncio.Task[None] | None = None
        self.why = ""

    @property
    def degraded(self) -> bool:
        return self._breaker.trust is Trust.LOST

    @property
    def waiting_settlements(self) -> int:
        return len(self._settlements)

    @property
    def dropped_settlements(self) -> int:
        return self._settlements.dropped

    async def __aenter__(self) -> DegradingStore:
        self._watcher = asyncio.create_task(self._watch(), name="quota-store-watch")
        self._watcher.add_done_callback(_report_end)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        await self._send_what_is_left()
        await self._shared.aclose()
        if self._settlements:
            log.error("%d settlements were not sent: %s", len(self._settlements), self.why)

    async def reserve(self, call_id: str, demands: tuple[Demand, ...]) -> Reservation | Refused:
        """Raises StoreUnavailable. Cancelled on the way: what may be held is given back later."""
        if self.degraded:
            return self._reserve_locally(call_id, demands)
        may_leak = True
        try:
            answer = await self._shared.reserve(call_id, demands)
            may_leak = False
        except StoreFault as fault:
            self._failed(fault)
            answer = self._reserve_locally(call_id, demands)
            may_leak = isinstance(answer, Refused)
        finally:
            if may_leak and (tenant := tenant_of(demands, {})) is not None:
                self._settle_later(Settlement(tenant, call_id, {}))
        return answer

    def settle(self, call_id: str, actual: Mapping[BucketKey, float] | None) -> Awaitable[None]:
        charges = actual or {}
        demands = self._shared.open.pop(call_id, ())
        if self._share is not None:
            self._share.settle(call_id, actual, self._clock.monotonic())
        tenant = tenant_of(demands, charges)
        if tenant is None:
            return DONE
        if self.degraded or self._unanswered >= MOST_UNANSWERED:
            self._settle_later(Settlement(tenant, call_id, charges))
            return DONE
        self._unanswered += 1
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def tell(fault: StoreFault | None) -> None:
            self._unanswered -= 1
            if fault is not None:
                self._failed(fault)
                self._settle_later(Settlement(tenant, call_id, charges))
            if not ended.done():
                ended.set_result(None)

        self._shared.settle_for(tenant, call_id, charges, tell)
        return ended

    async def renew(self, call_ids: tuple[str, ...]) -> None:
        if self._share is not None:
            self._share.renew(call_ids, self._clock.monotonic())
        if self.degraded:
            return
        try:
            await self._shared.renew(call_ids)
        except StoreFault as fault:
            self._failed(fault)

    async def peek(self, demands: tuple[Demand, ...]) -> tuple[BucketState, ...]:
        if not self.degraded:
            try:
                return await self._shared.peek(demands)
            except StoreFault as fault:
                self._failed(fault)
        return self._local().peek(demands, self._clock.monotonic())

    async def seed(self, key: BucketKey, used: float) -> None:
        await self._shared.seed(key, used)

    def _reserve_locally(self, call_id: str, demands: tuple[Demand, ...]) -> Reservation | Refused:
        answer = self._local().reserve(call_id, demands, self._clock.monotonic())
        if isinstance(answer, Reservation):
            self._shared.open[call_id] = demands
        return answer

    def _local(self) -> LocalShare:
        if self._share is None:
            self._share = self._new_share()
        return self._share

    def _new_share(self) -> LocalShare:
        shared = self._shared
        return LocalShare(shared.known, self._processes, shared.open, self._clock.monotonic())

    def _settle_later(self, settlement: Settlement) -> None:
        self._settlements.add(settlement)
        self._wake.set()

    def _failed(self, fault: StoreFault) -> None:
        if self._breaker.failed(self._clock.monotonic()):
            self.why = str(fault)
            self._share = self._new_share()
            log.warning("quota store lost, each process grants its share: %s", fault)
            self._on_degraded(self.why)
        self._wake.set()

    async def _watch(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._breaker.trust is not Trust.TRUSTED or self._settlements:
                if not await self._try_again():
                    await asyncio.sleep(self._breaker.probe_in_s)

    async def _try_again(self) -> bool:
        try:
            if self._breaker.trust is not Trust.TRUSTED:
                await self._shared.probe()
                await self._shared.renew(tuple(self._shared.open))
            await self._send(SEND_BEFORE_TRUST_S)
        except StoreFault as fault:
            self._failed(fault)
            return False
        self._trust_again()
        return True

    def _trust_again(self) -> None:
        was_lost = self.degraded
        self._breaker.close()
        self._share = None
        if was_lost:
            self.why = ""
            log.warning("quota store is back; %d settlements wait", len(self._settlements))
            self._on_restored()

    async def _send(self, at_most_s: float) -> None:
        """Settles again what is waiting. What fails waits on; raises its StoreFault."""
        until_s = self._clock.monotonic() + at_most_s
        while self._settlements and self._clock.monotonic() < until_s:
            await self._send_some()

    async def _send_some(self) -> None:
        with self._settlements.taken(SENT_AT_ONCE) as batch:
            sends = [self._shared.settling(s.tenant, s.call_id, s.charges) for s in batch]
            answers = await asyncio.gather(*sends, return_exceptions=True)
            failures = [answer for answer in answers if answer is not None]
            batch[:] = [s for s, answer in zip(batch, answers, strict=True) if answer is not None]
        for failure in failures:
            raise failure

    async def _send_what_is_left(self) -> None:
        if self.degraded:
            return
        try:
            await self._shared.drained()
            await self._send(SEND_BEFORE_TRUST_S)
        except StoreFault as fault:
            self.why = str(fault)


def _report_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("%s ended", task.get_name(), exc_info=task.exception())


def shared_store(
    url: str,
    clock: Clock,
    *,
    processes: int = 1,
    on_degraded: Callable[[str], None],
    on_restored: Callable[[], None],
) -> DegradingStore:
    return DegradingStore(
        RedisStore(url, clock),
        clock,
        processes=processes,
        on_degraded=on_degraded,
        on_restored=on_restored,
    )
