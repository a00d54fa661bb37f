"""What a quota store does, as plainly as possible: the model that the stores are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.core.limits.book import kind_of
from gateway.core.limits.demands import BucketKey, Demand, Kind

LEASE_S = 15.0


@dataclass
class ModelBucket:
    kind: Kind
    capacity: float
    rate: float
    used: float = 0.0
    at_s: float = 0.0

    def drain(self, now_s: float) -> None:
        if self.kind is Kind.RATE:
            self.used = max(0.0, self.used - (now_s - self.at_s) * self.rate)
        self.at_s = now_s


@dataclass
class ModelCall:
    holds: dict[BucketKey, float]
    expires_s: float
    live: bool = True


@dataclass
class Model:
    buckets: dict[BucketKey, ModelBucket] = field(default_factory=dict)
    calls: dict[str, ModelCall] = field(default_factory=dict)
    settled: dict[str, float] = field(default_factory=dict)  # id -> when
    charged: dict[BucketKey, float] = field(default_factory=dict)  # the ledger

    def advance(self, now_s: float) -> None:
        """Leases end in order, each at the moment at which it is noticed: now."""
        for bucket in self.buckets.values():
            bucket.drain(now_s)
        for call in self.calls.values():
            if call.live and call.expires_s <= now_s:
                call.live = False
                self._change_rates(call, -1)

    def held(self, key: BucketKey) -> float:
        return sum(call.holds.get(key, 0.0) for call in self.calls.values() if call.live)

    def reserve(self, call_id: str, demands: tuple[Demand, ...], now_s: float) -> bool:
        for d in demands:
            rate = d.capacity / d.window_s
            bucket = self.buckets.setdefault(
                d.key, ModelBucket(d.kind, d.capacity, rate, at_s=now_s)
            )
            bucket.capacity, bucket.rate = d.capacity, rate
        if call_id in self.settled:
            return True
        if call_id in self.calls and self.calls[call_id].live:
            self.calls[call_id].expires_s = now_s + LEASE_S
            return True
        for d in demands:
            held = 0.0 if d.kind is Kind.RATE else self.held(d.key)
            if self.buckets[d.key].used + held + d.amount > d.capacity + 1e-6:
                return False
        self.calls[call_id] = ModelCall({d.key: d.amount for d in demands}, now_s + LEASE_S)
        self._change_rates(self.calls[call_id], +1)
        return True

    def settle(self, call_id: str, actual: Mapping[BucketKey, float], now_s: float) -> None:
        if call_id in self.settled:
            return
        self.settled[call_id] = now_s
        for key, amount in actual.items():
            unknown = ModelBucket(kind_of(key), 0.0, 0.0, at_s=now_s)
            self.buckets.setdefault(key, unknown).used += amount
            self.charged[key] = self.charged.get(key, 0.0) + amount
        call = self.calls.pop(call_id, None)
        if call is not None and call.live:
            self._change_rates(call, -1)

    def renew(self, call_id: str, now_s: float) -> None:
        call = self.calls.get(call_id)
        if call is not None:
            if not call.live:
                call.live = True
                self._change_rates(call, +1)
            call.expires_s = now_s + LEASE_S

    def end_leases(self) -> None:
        for call in self.calls.values():
            call.expires_s = 0.0

    def restart(self, taken_s: float, down_s: float, now_s: float) -> None:
        """A new process: LEVEL holds and expired calls are gone, old settled ids forgotten."""
        self.settled = {n: now_s for n, at_s in self.settled.items() if taken_s - at_s < 30.0}
        self.calls = {name: call for name, call in self.calls.items() if call.live}
        for call in self.calls.values():
            call.expires_s = now_s + LEASE_S
            call.holds = {k: a for k, a in call.holds.items() if kind_of(k) is not Kind.LEVEL}
        for bucket in self.buckets.values():
            bucket.at_s = now_s - down_s
            bucket.drain(now_s)

    def lose_everything(self, budgets: set[BucketKey], now_s: float) -> None:
        """But totals of budgets, which are known from elsewhere."""
        self.settled.clear()
        self.buckets.clear()
        for call in self.calls.values():
            call.live = False
        for key in budgets & self.charged.keys():
            self.buckets[key] = ModelBucket(Kind.BUDGET, 0.0, 0.0, self.charged[key], now_s)

    def _change_rates(self, call: ModelCall, sign: int) -> None:
        for key, amount in call.holds.items():
            unknown = ModelBucket(kind_of(key), 0.0, 0.0)
            bucket = self.buckets.setdefault(key, unknown)
            if bucket.kind is Kind.RATE:
                bucket.used = max(0.0, bucket.used + sign * amount)
