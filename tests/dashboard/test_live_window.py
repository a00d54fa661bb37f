"""Slices, percentiles, shares: what the last minutes say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.live.window import SKETCH_ACCURACY, SLICE_S, Window, merged
from gateway.core.events import TenantSecond

START = 1_000_000.0


def test_counts_of_seconds_are_summed() -> None:
    window = Window(900)
    for n in range(25):
        window.add(START + n, [TenantSecond("acme", calls=2, shed=1, prompt_tokens=10)])
    total = window.tenants["acme"].since(START)
    assert (total.calls, total.shed, total.prompt_tokens) == (50, 25, 250)


@given(st.lists(st.floats(0.001, 100), min_size=1, max_size=200), st.integers(1, 7))
def test_a_percentile_of_slices_is_the_percentile_of_their_calls(
    values: list[float], parts: int
) -> None:
    window = Window(900)
    for n in range(parts):
        seconds = TenantSecond("acme", ttft_s=tuple(values[n::parts]))
        window.add(START + n * SLICE_S, [seconds])
    sketch = merged(window.tenants["acme"].slices).ttft_s
    rank = sorted(values)[int(0.5 * (len(values) - 1))]
    assert sketch.get_quantile_value(0.5) == pytest.approx(rank, rel=2 * SKETCH_ACCURACY)
    assert sketch.count == len(values)


def test_what_is_older_than_the_history_is_forgotten() -> None:
    window = Window(60)
    window.add(START, [TenantSecond("acme", calls=1)])
    window.add(START + 100, [TenantSecond("rival", calls=1)])
    assert set(window.tenants) == {"rival"}


def test_memory_is_bounded_by_the_history() -> None:
    window = Window(60)
    for n in range(1000):
        window.add(START + n, [TenantSecond("acme", calls=1, service_cost=1.0)])
    assert len(window.tenants["acme"].slices) <= 60 // SLICE_S + 1
    assert len(window.tenants["acme"].costs) <= 10


def test_a_tenant_that_a_second_does_not_name_waits_for_nothing() -> None:
    window = Window(900)
    window.add(START, [TenantSecond("acme", queued=3, in_flight=2)])
    window.add(START + 1, [])
    assert not window.tenants["acme"].is_active
