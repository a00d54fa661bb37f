"""What an operator or owner changes is in force within a second, while calls keep coming."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from tests.e2e.installation import Installation
from tests.e2e.load import Load, load, steady_load
from tests.e2e.operator import Operator
from tests.e2e.scripted import in_force
from tests.e2e.streams import Stream

pytestmark = pytest.mark.alone

RATE = 40.0
IN_FORCE_S = 1.0
BACKLOG = 40  # callers of each tenant; the pool has 24 slots
SHARE_S = 5.0
TOKENS = 40


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ("revoked key", 401, "invalid_api_key"),
        ("lowered limit", 429, "tokens_per_minute"),
        ("suspended tenant", 403, "suspended"),
    ],
)
async def test_change_takes_effect_within_a_second_and_for_every_call_after_it(
    estate: Installation, operator: Operator, change: str, status: int, reason: str
) -> None:
    """S06, I11: of the calls sent after the first refusal none is admitted."""
    slug, key_id, secret = await asyncio.to_thread(_tenant, operator, change.replace(" ", "-"))
    changes: dict[str, Callable[[], object]] = {
        "revoked key": lambda: operator.post(f"/tenants/{slug}/keys/{key_id}/disable"),
        "lowered limit": lambda: operator.put(
            f"/tenants/{slug}/limits", meter="tpm", amount=1, klass="online"
        ),
        "suspended tenant": lambda: operator.post(f"/tenants/{slug}/suspend", why="test"),
    }
    async with steady_load(estate, RATE, 4, key=secret) as running:
        long = running.send(2000, key=secret)
        await long.began.wait()
        await asyncio.to_thread(changes[change])
        committed_s = operator.committed_s
        await asyncio.sleep(IN_FORCE_S + 0.5)  # under load, the subject of this test
        if change == "lowered limit":
            running.cut(long)
    refused = [one for one in running.streams if one.status != 200]
    first = min(refused, key=lambda one: one.ended_s)
    assert {(one.status, one.reason) for one in refused} <= {(status, reason), (400, "cannot_fit")}
    assert not [one for one in running.since(first.ended_s) if one.status == 200]
    last_s = max(one.sent_s for one in running.streams if one.status == 200)
    assert last_s - committed_s <= IN_FORCE_S
    if change != "lowered limit":
        assert not long.done
        assert b'"error"' in long.body
        assert long.ended_s - committed_s <= IN_FORCE_S
    print(
        f"{change}: last call admitted {last_s - committed_s:.2f} s after its commit, then "
        f"{len(refused)} refused"
    )


async def test_backlogged_tenants_share_by_weight_and_a_changed_weight_moves_their_shares(
    estate: Installation, operator: Operator
) -> None:
    """Row 60: 3:1 as configured, then 1:3 within two seconds."""
    keys = [(await asyncio.to_thread(_tenant, operator, slug))[2] for slug in ("heavy", "light")]
    await asyncio.to_thread(_weights, operator, 3, 1)
    async with load(estate) as running, AsyncExitStack() as stack:
        for key in keys:
            stack.push_async_callback(_end, asyncio.create_task(_backlog(running, key)))
        await asyncio.sleep(2.0)  # the backlog forms
        before = await _ratio(running, keys, SHARE_S)
        await asyncio.to_thread(_weights, operator, 1, 3)
        changed_s = operator.committed_s
        await asyncio.sleep(max(0.0, changed_s + 2.0 - time.monotonic()))
        after = await _ratio(running, keys, SHARE_S)
        running.cut_all()
    print(f"weights 3:1 {before:.2f}, two seconds after the change to 1:3 {1 / after:.2f}")
    assert before == pytest.approx(3.0, abs=0.3)
    assert 1 / after == pytest.approx(3.0, abs=0.3)


def _tenant(operator: Operator, slug: str) -> tuple[str, str, str]:
    """(slug, key id, secret) of a new tenant without limits to speak of, in force."""
    operator.post("/tenants", name=slug, slug=slug, plan="enterprise", why="test")
    key = operator.post(f"/tenants/{slug}/keys", label="k")
    limit = {"meter": "tpm", "amount": 10**9, "klass": "online"}
    version = operator.put(f"/tenants/{slug}/limits", **limit)["config_version"]
    asyncio.run(in_force(operator.place, version))
    return slug, key["key_id"], key["api_key"]


def _weights(operator: Operator, heavy: float, light: float) -> None:
    operator.put("/tenants/heavy/weight", weight=heavy, why="test")
    operator.put("/tenants/light/weight", weight=light, why="test")


async def _backlog(running: Load, key: str) -> None:
    """Keeps BACKLOG calls of one tenant going, of equal sizes, for ever."""

    async def one_after_the_other(number: int) -> None:
        while True:
            stream = running.send(TOKENS, key=key, prompt=f"caller {number}")
            running.owners[stream] = key
            await stream.ended.wait()

    await asyncio.gather(*(one_after_the_other(number) for number in range(BACKLOG)))


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _ratio(running: Load, keys: list[str], seconds: float) -> float:
    """Tokens that the first tenant received in this time for one of the second."""
    before = [_received(running.streams, running, key) for key in keys]
    await asyncio.sleep(seconds)  # the time over which shares are taken
    mine, theirs = (
        _received(running.streams, running, key) - had
        for key, had in zip(keys, before, strict=True)
    )
    return mine / theirs


def _received(streams: list[Stream], running: Load, key: str) -> int:
    return sum(one.tokens for one in streams if running.owners.get(one) == key)
