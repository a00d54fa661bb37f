"""What does a replica report about itself, once a second?

A scrape that fails changes nothing but what is shown: traffic goes on with the gateway's own
counts. After ``FAILURES_TO_DEGRADE`` in a row the sample is dropped and the loss is declared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.core.clock import Clock
from gateway.core.dispatch.effects import ReplicaTelemetry
from gateway.core.errors import UpstreamError
from gateway.degradation import Degradation
from gateway.replicas.adapters import Adapter
from gateway.replicas.telemetry import MAX_TEXT_BYTES, TelemetryUnusable, read
from gateway.replicas.upstream import Prober, ReplicaTarget

INTERVAL_S = 1.0
TIMEOUT_S = 2.0
FAILURES_TO_DEGRADE = 3


class Scraper:
    """``wanted`` is asked before each scrape; ``sink`` receives each good sample."""

    def __init__(
        self,
        target: ReplicaTarget,
        adapter: Adapter,
        *,
        prober: Prober,
        clock: Clock,
        degradation: Degradation,
        wanted: Callable[[], bool],
        sink: Callable[[str, ReplicaTelemetry], None],
    ) -> None:
        self.sample: ReplicaTelemetry | None = None
        self._target = target
        self._adapter = adapter
        self._prober = prober
        self._clock = clock
        self._degradation = degradation
        self._wanted = wanted
        self._sink = sink
        self._failures = 0

    async def run(self) -> None:
        while self._adapter.metrics_path is not None:
            if self._wanted():
                await self._scrape(self._adapter.metrics_path)
            else:
                self.sample = None
            await asyncio.sleep(INTERVAL_S)
        await asyncio.Event().wait()  # this kind of server reports nothing

    def lost(self, why: str | None) -> None:
        """``None``: nobody expects telemetry (any more)."""
        self.sample = None
        self._degradation.report(why)

    async def _scrape(self, path: str) -> None:
        try:
            sample = await self._read(path)
        except UpstreamError as error:
            self._failed(error.message)
        except TelemetryUnusable as error:
            self._failed(str(error))
        else:
            self._failures = 0
            self._degradation.report(None)
            self.sample = sample
            self._sink(self._target.pool, sample)

    async def _read(self, path: str) -> ReplicaTelemetry:
        answer = await self._prober.get(
            self._target, path, timeout_s=TIMEOUT_S, max_bytes=MAX_TEXT_BYTES
        )
        if answer.status != 200:
            raise TelemetryUnusable(f"the metrics page answers with status {answer.status}")
        names = self._adapter.metrics
        now_s = self._clock.monotonic()
        return read(answer.body, names, slug=self._target.slug, at_s=now_s)

    def _failed(self, why: str) -> None:
        self._failures += 1
        if self._failures >= FAILURES_TO_DEGRADE:
            self.lost(why)
