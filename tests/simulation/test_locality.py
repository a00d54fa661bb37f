"""Locality and fairness together, where every tenant is backlogged and no replica holds every
prompt: between affinity only and the strict fair queue (``benchmarks.locality`` at full size)."""

from __future__ import annotations

from statistics import fmean

import pytest

from benchmarks.locality import Figures, affinity_only, with_quantum

SEEDS = (11, 12, 13)
SECONDS = 120.0


@pytest.fixture(scope="module")
def strict() -> list[Figures]:
    return [with_quantum(0, seed, SECONDS) for seed in SEEDS]


def test_a_large_quantum_keeps_most_of_affinity_at_the_difference_of_strict(
    strict: list[Figures],
) -> None:
    """Thirty calls of a tenant. At full size, five seeds: 0.91 of affinity, the least 0.90."""
    between = [with_quantum(81_920, seed, SECONDS) for seed in SEEDS]
    affinity = [affinity_only(seed, SECONDS) for seed in SEEDS]
    pairs = list(zip(between, affinity, strict=True))
    throughput = [one.throughput_tps / end.throughput_tps for one, end in pairs]
    assert min(throughput) >= 0.78
    assert fmean(throughput) >= 0.85
    for one, end in zip(between, strict, strict=True):
        assert one.difference_tps <= 1.25 * end.difference_tps
    assert all(2 * one.largest < end.largest for one, end in pairs)


def test_the_default_quantum_gains_a_fifth_and_takes_nothing_from_anybody(
    strict: list[Figures],
) -> None:
    for seed, end in zip(SEEDS, strict, strict=True):
        one = with_quantum(4_096, seed, SECONDS)
        assert one.throughput_tps >= 1.2 * end.throughput_tps
        assert one.difference_tps <= 1.25 * end.difference_tps
