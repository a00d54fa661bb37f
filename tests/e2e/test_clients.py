"""Clients that people use, unchanged: each runs all of its cases in one process of its own, in
front of scripted, simulated and real llama.cpp replicas, a few at the same time.

With ``TEST_CLIENTS_TOLD``, as ``make clients`` sets it, all that are known and installed run, and
what they said is written there.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.programs import OTHERS, SUITE, Told, told_by
from tests.clients.stage import Facts, staged
from tests.e2e.operator import Operator
from tests.e2e.scripted import until
from tests.fakes.llamacpp import LlamaServer

KEPT = os.environ.get("TEST_CLIENTS_TOLD", "")
PROGRAMS = SUITE | OTHERS if KEPT else SUITE
FEWEST_CASES = 6
AT_ONCE = max(2, os.cpu_count() or 2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def told(
    operator: Operator, tiny: LlamaServer, sim_vectors: str, tiny_vectors: str
) -> AsyncIterator[dict[str, Told]]:
    """At the end every stream that a client left must have been closed at the replica too."""
    able = [name for name, program in PROGRAMS.items() if not program.missing()]
    async with staged(operator, able) as (replica, facts):
        said = await _all_of(able, facts)
        _keep(said)
        yield said
        left = [call for call in replica.calls if b"endless" in call.body]
        assert len(left) >= len(able) - 1  # instructor has no such case
        await until(lambda: all(call.gone.is_set() for call in left), 5.0)


def _keep(said: dict[str, Told]) -> None:
    if KEPT:
        Path(KEPT).write_text(json.dumps({name: asdict(one) for name, one in said.items()}))


async def _all_of(names: list[str], facts: dict[str, Facts]) -> dict[str, Told]:
    room = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> Told:
        async with room:
            return await told_by(PROGRAMS[name], facts[name])

    return dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))


@pytest.mark.timeout(1800 if KEPT else 300)
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_client_works_unchanged(name: str, told: dict[str, Told]) -> None:
    """G11, G23, R30"""
    if missing := PROGRAMS[name].missing():
        pytest.skip(missing)
    assert told[name].version
    assert len(told[name].problems) >= FEWEST_CASES
    assert told[name].failed == {}
