"""Counters and histograms that cost one addition: what a call changes, a dozen of them at its end.

The library's own take a lock for each and look through their buckets one by one. These belong to
the event loop, and become the library's families when they are asked for. A histogram counts a
value in the first bucket whose bound is not below it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import INF, floatToGoString

Labels = tuple[str, ...]
_bound_name: Callable[[float], str] = floatToGoString


class Tally:
    """One series of a counter: add to ``total``."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0.0


class Tallies:
    """A counter."""

    def __init__(
        self, name: str, help: str, labels: Sequence[str], registry: CollectorRegistry
    ) -> None:
        self._told = (name, help, tuple(labels))
        self._series: dict[Labels, Tally] = {}
        registry.register(self)

    def labels(self, *values: str) -> Tally:
        return self._series.setdefault(values, Tally())

    def collect(self) -> Iterable[Metric]:
        name, help, labels = self._told
        family = CounterMetricFamily(name, help, labels=labels)
        for values, tally in self._series.items():
            family.add_metric(values, tally.total)
        yield family


class Spread:
    """One series of a histogram. ``counts``: by bucket, the last without a bound."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


class Spreads:
    """A histogram. ``bounds``: upper ones, rising."""

    def __init__(
        self,
        name: str,
        help: str,
        labels: Sequence[str],
        bounds: Sequence[float],
        registry: CollectorRegistry,
    ) -> None:
        self._told = (name, help, tuple(labels))
        self._bounds = tuple(bounds)
        self._names = [_bound_name(bound) for bound in (*bounds, INF)]
        self._series: dict[Labels, Spread] = {}
        registry.register(self)

    def labels(self, *values: str) -> Spread:
        return self._series.setdefault(values, Spread(self._bounds))

    def collect(self) -> Iterable[Metric]:
        name, help, labels = self._told
        family = HistogramMetricFamily(name, help, labels=labels)
        for values, spread in self._series.items():
            below, buckets = 0, []
            for bound, count in zip(self._names, spread.counts, strict=True):
                below += count
                buckets.append((bound, float(below)))
            family.add_metric(values, buckets, spread.total)
        yield family
