"""Locality and fairness together, where every tenant is backlogged and no replica holds every
prompt: between affinity only and the strict fair queue (``benchmarks.locality`` at full size)."""

from __future__ import annotations

from statistics import fmean

import pytest

from benchmarks.locality import Figures, affinity_only, fair, strict

SEEDS = (11, 12, 13)
SECONDS = 120.0


@pytest.fixture(scope="module")
def in_turn() -> list[Figures]:
    return [strict(seed, SECONDS) for seed in SEEDS]


def test_the_default_keeps_most_of_affinity_at_the_difference_of_strict(
    in_turn: list[Figures],
) -> None:
    """Thirty calls of a tenant. At full size, five seeds: 0.9 of affinity."""
    between = [fair(seed, SECONDS) for seed in SEEDS]
    affinity = [affinity_only(seed, SECONDS) for seed in SEEDS]
    pairs = list(zip(between, affinity, strict=True))
    throughput = [one.throughput_tps / end.throughput_tps for one, end in pairs]
    assert min(throughput) >= 0.78
    assert fmean(throughput) >= 0.85
    for one, end in zip(between, in_turn, strict=True):
        assert one.difference_tps <= 1.25 * end.difference_tps
    assert all(2 * one.largest < end.largest for one, end in pairs)


def test_a_fixed_quantum_of_few_calls_gains_a_fifth(in_turn: list[Figures]) -> None:
    for seed, end in zip(SEEDS, in_turn, strict=True):
        one = fair(seed, SECONDS, quantum_tokens=4_096, quantum_s=0.0)
        assert 1.2 * end.throughput_tps <= one.throughput_tps <= 2.0 * end.throughput_tps
        assert one.difference_tps <= 1.25 * end.difference_tps
