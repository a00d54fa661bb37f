"""Fair shares in slots: weighted max-min over the replicas that each tenant may use."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.dispatch.entitlement import Asking, entitlement
from tests.core.factories import config, dispatcher, ticket
from tests.scenarios.max_min import max_min

SLOTS = {"r0": 8, "r1": 8}
ONLY_R0 = frozenset({"r0"})


def test_a_content_tenant_leaves_the_rest_to_the_others() -> None:
    asking = {"light": Asking(1.0, 2.0), "a": Asking(1.0, math.inf), "b": Asking(3.0, math.inf)}
    assert entitlement(asking, SLOTS) == {"light": 2.0, "a": 3.5, "b": 10.5}


def test_one_that_may_use_one_replica_only_does_not_pull_the_others_down() -> None:
    asking = {
        "bound": Asking(1.0, math.inf, ONLY_R0),
        "bound2": Asking(1.0, math.inf, ONLY_R0),
        "free": Asking(1.0, math.inf),
    }
    shares = entitlement(asking, SLOTS)
    assert shares == {"bound": 4.0, "bound2": 4.0, "free": 8.0}


def test_one_that_may_use_one_replica_gets_its_share_there() -> None:
    asking = {"bound": Asking(1.0, math.inf, ONLY_R0), "free": Asking(1.0, math.inf)}
    assert entitlement(asking, SLOTS) == {"bound": 8.0, "free": 8.0}


def test_without_slots_nobody_is_entitled_to_any() -> None:
    assert entitlement({"a": Asking(1.0, math.inf)}, {}) == {"a": 0.0}


demands = st.one_of(st.just(math.inf), st.floats(0.0, 30.0))


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.floats(0.1, 10.0), demands), min_size=1)
)
def test_with_one_kind_it_is_water_filling(tenants: dict[str, tuple[float, float]]) -> None:
    asking = {name: Asking(weight, slots) for name, (weight, slots) in tenants.items()}
    fair = max_min(
        16.0,
        {name: one.slots for name, one in asking.items()},
        {name: one.weight for name, one in asking.items()},
    )
    assert entitlement(asking, SLOTS) == pytest.approx(fair, abs=1e-6)


def test_a_pool_tells_it_once_a_second() -> None:
    pool = dispatcher(config(2, 4, unstarted_calls=100, weights={"gold": 3.0}))
    for _ in range(10):
        pool.submit(ticket("gold"), 0.0)
        pool.submit(ticket("bronze"), 0.0)
    assert pool.view().fair_share == {"gold": 6.0, "bronze": 2.0}
