"""What does a replica say about itself? Reads a Prometheus text into one sample.

Only the lines whose name the adapter knows are parsed, so a long text costs little. A series that
is missing, not a number or negative is None, never 0; several series of one name (engines of one
server) are added up, ratios averaged. A text without any known name is unusable: the server
renamed its series or answers with something else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families

from gateway.core.dispatch.effects import ReplicaTelemetry
from gateway.replicas.adapters import MetricNames

MAX_TEXT_BYTES = 2 * 1024 * 1024


class TelemetryUnusable(Exception):
    """Says in words why a scrape brought nothing."""


def read(text: bytes, names: MetricNames, *, slug: str, at_s: float) -> ReplicaTelemetry:
    """Raises TelemetryUnusable."""
    wanted = (
        *(*names.running, *names.waiting, *names.kv_ratio),
        *(*names.prompt_tokens, *names.preemptions),
    )
    samples = _samples(text, wanted)
    running = _first(samples, names.running)
    waiting = _first(samples, names.waiting)
    ratios = _first(samples, names.kv_ratio)
    read_tokens = _first(samples, names.prompt_tokens)
    preemptions = _first(samples, names.preemptions)
    if not (running or waiting or ratios):
        raise TelemetryUnusable("none of the expected metric names is reported")
    return ReplicaTelemetry(
        slug=slug,
        at_s=at_s,
        running=int(sum(running)) if running else None,
        waiting=int(sum(waiting)) if waiting else None,
        kv_ratio=sum(ratios) / len(ratios) if ratios else None,
        preemptions=int(sum(preemptions)) if preemptions else None,
        prompt_tokens=int(sum(read_tokens)) if read_tokens else None,
    )


def _samples(text: bytes, wanted: Iterable[str]) -> dict[str, list[float]]:
    """Usable values by sample name."""
    starts = tuple(name.encode() for name in wanted)
    lines = [line for line in text.split(b"\n") if line.startswith(starts)]
    values: dict[str, list[float]] = {}
    try:
        few = b"\n".join([*lines, b""]).decode()
        for family in text_string_to_metric_families(few):
            for sample in family.samples:
                if math.isfinite(sample.value) and sample.value >= 0:
                    values.setdefault(sample.name, []).append(sample.value)
    except ValueError:
        raise TelemetryUnusable("the metrics are not valid Prometheus text") from None
    return values


def _first(samples: dict[str, list[float]], names: tuple[str, ...]) -> list[float]:
    return next((samples[name] for name in names if name in samples), [])
