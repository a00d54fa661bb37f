"""Lanes: which replicas may run a call."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.queues.lane import ANYWHERE, Lane

SLUGS = frozenset("pqrst")
sets = st.frozensets(st.sampled_from(sorted(SLUGS)))
lanes = st.builds(Lane, st.none() | sets, sets)


def replicas_of(lane: Lane) -> frozenset[str]:
    return frozenset(slug for slug in SLUGS if lane.admits(slug))


@given(lanes, sets)
def test_a_lane_meets_a_set_that_holds_one_of_its_replicas(
    lane: Lane, slugs: frozenset[str]
) -> None:
    assert lane.meets(slugs) == bool(replicas_of(lane) & slugs)


@given(lanes, lanes)
def test_within_means_a_subset_of_replicas(lane: Lane, other: Lane) -> None:
    if lane.within(other):
        assert replicas_of(lane) <= replicas_of(other)


def test_every_lane_is_within_anywhere() -> None:
    assert Lane(frozenset("p")).within(ANYWHERE)
    assert Lane(excluded=frozenset("p")).within(ANYWHERE)
    assert not ANYWHERE.within(Lane(frozenset("p")))
