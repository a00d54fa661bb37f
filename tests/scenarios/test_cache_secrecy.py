"""Can one tenant find out what another has asked, from how fast an answer begins?

Two simulated replicas that share blocks among equal prompts, as vLLM does, behind prefix routing. A
victim sends prompts; a probe sends the same ones, and as many that nobody sent, and compares.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gateway.simulation.engine import EngineConfig
from tests.fakes.data_plane import POOL, Answer, House, chat, replica, tenant
from tests.fakes.simulated_upstream import simulating
from tests.fakes.virtual_time import VirtualTime, virtual_time

__all__ = ["virtual_time"]

PROMPTS = 200
WORDS = ("alpha", "beta", "gamma", "delta", "omega", "sigma")
SLUGS = ("r1", "r2")
CRITICAL = 1.628 * math.sqrt(2 / PROMPTS)  # Kolmogorov-Smirnov, two samples, p = 0.01


def prompts(seed: int) -> list[str]:
    """Of about 1,500 tokens; equal lengths, different from the first word on."""
    rng = random.Random(seed)
    return [f"{seed} {n:03} " + " ".join(rng.choices(WORDS, k=1_200)) for n in range(PROMPTS)]


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Largest difference of the two distribution functions."""
    return max(
        abs(sum(v <= x for v in one) / len(one) - sum(v <= x for v in other) / len(other))
        for x in (*one, *other)
    )


def probed(time: VirtualTime, folder: Path, probe: str) -> tuple[list[Answer], list[Answer]]:
    """What the tenant ``probe`` saw of prompts that the victim had sent, and of others."""

    async def main() -> tuple[list[Answer], list[Answer]]:
        async with simulating(dict.fromkeys(SLUGS, EngineConfig()), "upstream-model") as upstream:
            house = House(
                time.clock,
                folder,
                transport=upstream,
                tenants=(tenant("victim"), tenant("attacker")),
                replicas=[replica(slug, kind="simulated", slots=32) for slug in SLUGS],
            )
            pool = replace(house.snapshot.pools[POOL], routing="bounded")
            house.change(pools={POOL: pool})
            await house.open()
            try:
                known, unknown = prompts(1), prompts(2)
                for text in known:
                    await house.call(body(text), tenant="victim")
                seen: dict[str, Answer] = {}
                for text in random.Random(5).sample(known + unknown, 2 * PROMPTS):
                    seen[text] = await house.call(body(text), tenant=probe)
                return [seen[text] for text in known], [seen[text] for text in unknown]
            finally:
                await house.close()

    return time.run(main())


def body(text: str) -> dict[str, object]:
    return chat(text, max_tokens=1, stream=True, cache_salt="the same")


def hits(answers: list[Answer]) -> float:
    return max(float(answer.headers["x-fairway-prefix-hit"]) for answer in answers)


def cached(answers: list[Answer]) -> int:
    usages = [event.get("usage") or {} for answer in answers for event in answer.events()]
    return sum(
        (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0) for usage in usages
    )


def ttft_s(answers: list[Answer]) -> list[float]:
    return [answer.times[0] for answer in answers]


def test_a_prompt_of_another_tenant_is_as_slow_as_one_that_nobody_sent(
    virtual_time: VirtualTime, tmp_path: Path
) -> None:
    """S14, R33: also with the same salt in both requests."""
    known, unknown = probed(virtual_time, tmp_path, "attacker")
    assert (hits(known), cached(known)) == (0, 0)
    assert distance(ttft_s(known), ttft_s(unknown)) < CRITICAL


def test_the_probe_would_see_the_difference(virtual_time: VirtualTime, tmp_path: Path) -> None:
    """What the victim itself sent before is fast, so the measure is no blind one."""
    known, unknown = probed(virtual_time, tmp_path, "victim")
    assert hits(known) > 0.9
    assert distance(ttft_s(known), ttft_s(unknown)) > 0.5  # some were evicted meanwhile
