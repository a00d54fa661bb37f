"""What does the running gateway know, if it runs in this process? Read from a page's thread.

Pages and API meet it only at ``scope["fairway"]``. Everything read here is immutable or a single
look-up, so no lock is needed.
"""

from __future__ import annotations

from typing import Protocol, cast

from django.http import HttpRequest

from gateway.active_calls import ActiveCalls
from gateway.core.events import PoolSecond, ReplicaSecond, SummarySecond
from gateway.summary import SummaryBuilder


class Running(Protocol):
    """What of ``gateway.runtime.Fairway`` is used here."""

    @property
    def active(self) -> ActiveCalls: ...

    @property
    def summary(self) -> SummaryBuilder: ...


def running_gateway(request: HttpRequest) -> Running | None:
    """None where another process serves the calls."""
    scope: dict[str, object] = getattr(request, "scope", {})
    return cast("Running | None", scope.get("fairway"))


def live_pools(request: HttpRequest) -> dict[str, PoolSecond]:
    """As of the last second; empty where they are not known."""
    latest = _latest(request)
    return {pool.pool: pool for pool in latest.pools} if latest else {}


def live_replicas(request: HttpRequest) -> dict[str, ReplicaSecond]:
    latest = _latest(request)
    return {replica.replica: replica for replica in latest.replicas} if latest else {}


def _latest(request: HttpRequest) -> SummarySecond | None:
    gateway = running_gateway(request)
    return gateway.summary.latest if gateway else None
