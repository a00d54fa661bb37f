"""A tenant with 51 connections beside one with 3, at a replica of 4 sequences: who gets what?

Both keep each connection busy (the next call is sent when the last one has ended), with equal
weights and calls of equal size. The mouse holds two of the four sequences when it has its half, so
its third call waits: both are backlogged, and the entitlement of each is one half. First come,
first served would give the mouse 3 of 54.

Shedding is in force as always: a standing queue costs the tenant that is furthest above its share,
whose refused connections come again after a moment. Measured at the clients: tokens of content that
arrived within the time, and the prompt tokens of calls that began to answer within it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from tests.e2e.installation import Installation, installed
from tests.e2e.load import Load, load
from tests.e2e.operator import Operator, operator_of
from tests.e2e.scripted import in_force

SEQUENCES = 4
ELEPHANT, MOUSE = 51, 3  # connections
PROMPT_WORDS, TOKENS = 100, 80
SECONDS = float(os.environ.get("TEST_SHARE_S", "10"))
BACKLOG_S = 3.0
PAUSE_S = 0.25  # after a refusal
PLENTY = {"tpm": 10**9, "rpm": 10**7, "concurrent": 10**5}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(tmp_path_factory.mktemp("elephant"), sequences=SEQUENCES) as it:
        it.serve()
        yield it


async def test_51_connections_get_no_more_than_3_that_are_always_busy(place: Installation) -> None:
    """Row 59: shares within 10 % of equal, no call of the mouse refused."""
    olga = await asyncio.to_thread(operator_of, place)
    elephant, mouse = [await _tenant(olga, slug) for slug in ("elephant", "mouse")]
    async with load(place) as running, AsyncExitStack() as stack:
        for key, connections in ((elephant, ELEPHANT), (mouse, MOUSE)):
            calling = asyncio.create_task(_busy(running, key, connections), name="connections")
            stack.push_async_callback(_end, calling)
        await asyncio.sleep(BACKLOG_S)
        before = [_received(running, key) for key in (elephant, mouse)]
        waiting = await _watched(running, mouse)
        after = [_received(running, key) for key in (elephant, mouse)]
        running.cut_all()
    theirs, its = (now - had for now, had in zip(after, before, strict=True))
    share = its / (its + theirs)
    refused = [running.owners[one] for one in running.streams if one.reason]
    print(
        f"{ELEPHANT} connections beside {MOUSE} for {SECONDS:.0f} s: the mouse received {its} of "
        f"{its + theirs} tokens ({share:.1%}), had a call that waited or began {waiting:.0%} of the"
        f" time; refused: {refused.count(elephant)} of the elephant, {refused.count(mouse)} of it"
    )
    assert waiting >= 0.95
    assert refused.count(mouse) == 0
    assert share == pytest.approx(0.5, rel=0.1)


async def _tenant(olga: Operator, slug: str) -> str:
    """The key of a new tenant of weight 1 without limits to speak of, in force."""
    await asyncio.to_thread(olga.post, "/tenants", name=slug, slug=slug, plan="enterprise", why="t")
    await asyncio.to_thread(olga.put, f"/tenants/{slug}/weight", weight=1, why="test")
    key = await asyncio.to_thread(olga.post, f"/tenants/{slug}/keys", label="k")
    for meter, amount in PLENTY.items():
        limit = {"meter": meter, "amount": amount, "klass": "online"}
        told = await asyncio.to_thread(olga.put, f"/tenants/{slug}/limits", **limit)
    await in_force(olga.place, told["config_version"])
    return str(key["api_key"])


async def _busy(running: Load, key: str, connections: int) -> None:
    """For ever."""

    async def connection(number: int) -> None:
        turn = 0
        while True:
            turn += 1
            prompt = f"{key[-6:]} {number} {turn} " + "word " * PROMPT_WORDS
            stream = running.send(TOKENS, key=key, prompt=prompt)
            running.owners[stream] = key
            await stream.ended.wait()
            if stream.status != 200:
                await asyncio.sleep(PAUSE_S)

    await asyncio.gather(*(connection(number) for number in range(connections)))


async def _watched(running: Load, key: str) -> float:
    """Lets the time pass. Part of it in which at least one call of this tenant had not begun to
    answer: it waits, or its prompt is being read."""
    samples = []
    until_s = asyncio.get_running_loop().time() + SECONDS
    while asyncio.get_running_loop().time() < until_s:
        mine = [one for one in running.streams if running.owners.get(one) == key]
        samples.append(any(not one.began.is_set() for one in mine))
        await asyncio.sleep(0.02)
    return sum(samples) / len(samples)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _received(running: Load, key: str) -> int:
    """Tokens so far, of prompts that were read and of answers."""
    mine = [one.tokens for one in running.streams if running.owners.get(one) == key]
    return sum(PROMPT_WORDS + tokens for tokens in mine if tokens)
