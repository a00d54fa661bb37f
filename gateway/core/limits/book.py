"""All buckets of one process: reserve, settle, renew, peek as plain functions of the given time.

Rules
- All demands of a call are met, or nothing changes.
- Idempotent by call id: a call that is open or settled is not held again; a settled call is not
  charged again. A call that is unknown or whose lease expired is charged what it actually used.
- A hold lives as long as its lease (``lease_s`` after the last reserve or renew). An expired hold
  is released as if abandoned; a renewal revives it.
- Memory: settled ids are kept ``remember_s`` and at most ``REMEMBERED`` of them.

Invariant: the ``held`` of a bucket is the sum of the holds of its open calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gateway.core.limits.bucket import Bucket, wait_s
from gateway.core.limits.demands import (
    BucketKey,
    BucketState,
    Demand,
    Kind,
    Refused,
    Reservation,
)
from gateway.core.limits.limit import CREDIT, METER_NAMED

LEASE_S = 15.0
REMEMBER_S = 600.0
REMEMBERED = 200_000


@dataclass(frozen=True, slots=True)
class OpenCall:
    holds: tuple[tuple[BucketKey, float], ...]
    expires_s: float


def kind_of(key: BucketKey) -> Kind:
    return METER_NAMED.get(key.meter, CREDIT).kind


class BucketBook:
    """Every dict is in order of time: leases by expiry, settled ids by when they were settled."""

    def __init__(self, *, lease_s: float = LEASE_S, remember_s: float = REMEMBER_S) -> None:
        self.lease_s = lease_s
        self._remember_s = remember_s
        self.buckets: dict[BucketKey, Bucket] = {}
        self.open: dict[str, OpenCall] = {}
        self.expired: dict[str, OpenCall] = {}
        self.settled: dict[str, float] = {}

    def reserve(
        self, call_id: str, demands: tuple[Demand, ...], now_s: float
    ) -> Reservation | Refused:
        self._reap(now_s)
        buckets = [self._met(demand, now_s) for demand in demands]
        if call_id in self.open:
            self.renew((call_id,), now_s)
        elif call_id not in self.settled:
            refused = _longest_wait(demands, buckets)
            if refused is not None:
                return refused
            self.expired.pop(call_id, None)
            self._hold(call_id, tuple((d.key, d.amount) for d in demands), now_s)
        return Reservation(call_id, _states(demands, buckets))

    def adopt(self, call_id: str, demands: tuple[Demand, ...], now_s: float) -> None:
        """Takes over the hold of a call that another store granted. The level of its RATE buckets
        is taken to contain it already."""
        for demand in demands:
            bucket = self._met(demand, now_s)
            if demand.kind is Kind.RATE:
                bucket.reserved += demand.amount
            else:
                bucket.hold(demand.amount)
        holds = tuple((d.key, d.amount) for d in demands)
        self.open[call_id] = OpenCall(holds, now_s + self.lease_s)

    def settle(self, call_id: str, actual: Mapping[BucketKey, float] | None, now_s: float) -> None:
        self._reap(now_s)
        if call_id in self.settled:
            return
        for key, amount in (actual or {}).items():
            self._bucket(key, now_s).charge(amount)
        call = self.open.pop(call_id, None)
        if call is not None:
            self._release(call, now_s)
        self.expired.pop(call_id, None)
        self.settled[call_id] = now_s

    def renew(self, call_ids: Iterable[str], now_s: float) -> None:
        for call_id in call_ids:
            call = self.open.pop(call_id, None)
            if call is not None:
                self.open[call_id] = OpenCall(call.holds, now_s + self.lease_s)
                continue
            call = self.expired.pop(call_id, None)
            if call is not None:
                self._hold(call_id, call.holds, now_s)

    def peek(self, demands: tuple[Demand, ...], now_s: float) -> tuple[BucketState, ...]:
        self._reap(now_s)
        states = []
        for demand in demands:
            bucket = self.buckets.get(demand.key) or Bucket(demand.kind, now_s)
            bucket.drain(now_s)
            states.append(bucket.state(demand.key, demand))
        return tuple(states)

    def seed(self, key: BucketKey, used: float, now_s: float) -> None:
        """Raises what is used to ``used``, a total known from elsewhere. Repeating is harmless."""
        bucket = self._bucket(key, now_s)
        bucket.used = max(bucket.used, used)

    def prune(self, now_s: float) -> None:
        """Forgets empty buckets, periods that are over and old settled ids."""
        for key, bucket in list(self.buckets.items()):
            bucket.drain(now_s)
            over = key.period != "" and bucket.forget_s < now_s
            if bucket.held == bucket.reserved == 0 and (bucket.used == 0 or over):
                del self.buckets[key]
        self._forget_settled(now_s)

    def _met(self, demand: Demand, now_s: float) -> Bucket:
        bucket = self.buckets.get(demand.key)
        if bucket is None:
            bucket = self.buckets[demand.key] = Bucket(demand.kind, now_s)
        bucket.meet(demand, now_s)
        return bucket

    def _bucket(self, key: BucketKey, now_s: float) -> Bucket:
        bucket = self.buckets.get(key)
        if bucket is None:
            bucket = self.buckets[key] = Bucket(kind_of(key), now_s)
        bucket.drain(now_s)
        return bucket

    def _hold(self, call_id: str, holds: tuple[tuple[BucketKey, float], ...], now_s: float) -> None:
        for key, amount in holds:
            self._bucket(key, now_s).hold(amount)
        self.open[call_id] = OpenCall(holds, now_s + self.lease_s)

    def _release(self, call: OpenCall, now_s: float) -> None:
        for key, amount in call.holds:
            bucket = self._bucket(key, now_s)
            bucket.release(amount)

    def _reap(self, now_s: float) -> None:
        while self.open:
            call_id, call = next(iter(self.open.items()))
            if call.expires_s > now_s:
                return
            del self.open[call_id]
            self._release(call, now_s)
            self.expired[call_id] = call

    def _forget_settled(self, now_s: float) -> None:
        for ids in (self.expired, self.settled):
            while len(ids) > REMEMBERED:
                del ids[next(iter(ids))]
        old = now_s - self._remember_s
        while self.settled and next(iter(self.settled.values())) < old:
            del self.settled[next(iter(self.settled))]
        while self.expired and next(iter(self.expired.values())).expires_s < old:
            del self.expired[next(iter(self.expired))]


def _longest_wait(demands: tuple[Demand, ...], buckets: list[Bucket]) -> Refused | None:
    refused = None
    for demand, bucket in zip(demands, buckets, strict=True):
        wait = wait_s(demand, bucket.used, bucket.held)
        if wait is not None and (refused is None or wait > refused.wait_s):
            total = bucket.used + bucket.held
            refused = Refused(demand, demand.capacity, total, demand.amount, wait)
    return refused


def _states(demands: tuple[Demand, ...], buckets: list[Bucket]) -> tuple[BucketState, ...]:
    return tuple(b.state(d.key, d) for d, b in zip(demands, buckets, strict=True))
