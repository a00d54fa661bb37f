"""A mistake of ours in authentication or quota lets nobody in.

Every function of the modules that decide is made to fail in its turn, wherever it is known. Those
that a call does not pass leave it as it was; where one does fail before a replica was asked, none
is, and the refusal is in the record.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.core.reasons import Outcome
from tests.failing import Injected, Step, steps
from tests.fakes.data_plane import House, chat, limit, tenant

DECIDING = (
    "gateway.auth",
    "tenants.key_format",
    "gateway.wire.request_hints",
    "gateway.pipeline.classify",
    "gateway.pipeline.eligibility",
    "gateway.pipeline.counting",
    "gateway.pipeline.admission",
    "gateway.core.limits.plan",
    "gateway.core.limits.book",
    "gateway.core.limits.bucket",
    "gateway.core.limits.periods",
    "gateway.stores.memory",
    "gateway.active_calls.table",
)
LIMITS = tuple(
    limit(meter, amount)
    for meter, amount in (("tpm", 10_000), ("rpm", 100), ("concurrent", 5), ("day", 1_000_000))
)
PASSED_BY_A_CALL = frozenset(
    {
        "gateway.auth.Authenticator.identified",
        "gateway.auth.Authenticator._known_key",
        "gateway.auth.Authenticator._live",
        "gateway.auth._unchanged",
        "gateway.auth.check_permitted",
        "gateway.auth.presented_secret",
        "tenants.key_format.parse",
        "tenants.key_format.digest",
        "gateway.pipeline.classify.classify",
        "gateway.pipeline.counting.Counter.count",
        "gateway.pipeline.admission.reserve",
        "gateway.core.limits.plan.Plan.demands",
        "gateway.stores.memory.MemoryStore.reserve",
    }
)


STEPS = tuple(steps(DECIDING))


@pytest.mark.parametrize("failure", [Injected, TimeoutError, KeyError])
def test_a_failure_in_any_step_of_authentication_and_quota_admits_nobody(
    in_house: Any, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    """S40. Each call is the first of its key under a configuration, which passes every step."""
    reached: set[str] = set()
    monkeypatch.setattr("gateway.auth._unchanged", lambda known, snapshot: False)

    async def scenario(house: House) -> None:
        for step in STEPS:
            if await _admits_nobody(house, monkeypatch, step, failure):
                reached.add(step.name)
        await asyncio.sleep(61.0)  # what settling could not give back is given back by time
        answer = await house.call(chat(max_tokens=5))
        assert (answer.status, house.leftovers) == (200, {}), answer.body

    in_house(scenario, tenants=(tenant(limits=LIMITS, credit_limit_microcredits=10**9),))
    assert reached >= PASSED_BY_A_CALL
    print(f"{len(reached)} of {len(STEPS)} functions failed before a replica was asked")


async def _admits_nobody(
    house: House, monkeypatch: pytest.MonkeyPatch, step: Step, failure: type[Exception]
) -> bool:
    """Whether the call came to this step before a replica was asked."""
    asked_before, recorded = len(house.scripted.attempts), len(house.records)
    failed_early = False

    def fail(*arguments: Any, **named: Any) -> Any:
        nonlocal failed_early
        failed_early |= len(house.scripted.attempts) == asked_before
        raise failure("injected")

    with monkeypatch.context() as patch:
        step.replace(patch, fail)
        try:
            status = (await house.call(chat(max_tokens=5))).status
        except failure:
            status = 0  # the server closes the connection
    (record,) = house.records[recorded:]
    if failed_early:
        assert len(house.scripted.attempts) == asked_before, step.name
        assert status == 0 or status >= 400, step.name
        assert record.outcome is not Outcome.COMPLETED, step.name
        assert record.reason is not None, step.name
    return failed_early
