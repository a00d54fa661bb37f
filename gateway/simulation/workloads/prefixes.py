"""Calls that begin with a shared prefix: system prompts, documents, few-shot examples.

Poisson arrivals. Each call = one of ``prefixes`` prefixes + a question of its own + an answer.
Which prefix: uniform, or Zipf with ``skew``. Content hashes are chained over blocks, so that equal
hashes mean equal text from the start. Units: tokens, calls per second.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from gateway.simulation.call import SimulatedCall

_MASK = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class PrefixLoad:
    rate: float
    prefixes: int
    prefix_tokens: int
    question_tokens: int
    output_tokens: int
    skew: float = 0.0
    block_tokens: int = 100
    tenant: str = "users"


def prefix_calls(load: PrefixLoad, seed: int, seconds: float) -> Iterator[SimulatedCall]:
    rng = random.Random(seed)
    chances = list(accumulate(1 / rank**load.skew for rank in range(1, load.prefixes + 1)))
    at_s = 0.0
    number = 0
    while (at_s := at_s + rng.expovariate(load.rate)) < seconds:
        prefix = rng.choices(range(load.prefixes), cum_weights=chances)[0]
        number += 1
        parts = ((prefix, load.prefix_tokens), (-number, load.question_tokens))
        yield SimulatedCall(
            call_id=f"p{number}",
            tenant=load.tenant,
            at_s=at_s,
            input_tokens=load.prefix_tokens + load.question_tokens,
            output_tokens=load.output_tokens,
            block_hashes=chained(parts, load.block_tokens),
            block_tokens=load.block_tokens,
        )


@dataclass(frozen=True, slots=True)
class GroupLoad:
    """``groups`` tenants with one system prompt each and a few questions that return; the first
    tenant sends ``heavy`` times as much as each other."""

    rate: float
    groups: int = 64
    prompts: int = 16
    system_tokens: int = 2_048
    question_tokens: int = 128
    output_tokens: int = 256
    heavy: float = 8.0
    block_tokens: int = 128


def group_calls(load: GroupLoad, seed: int, seconds: float) -> Iterator[SimulatedCall]:
    rng = random.Random(seed)
    chances = [load.heavy, *[1.0] * (load.groups - 1)]
    at_s = 0.0
    number = 0
    while (at_s := at_s + rng.expovariate(load.rate)) < seconds:
        group = rng.choices(range(load.groups), weights=chances)[0]
        number += 1
        question = load.groups + group * load.prompts + rng.randrange(load.prompts)
        parts = ((group, load.system_tokens), (question, load.question_tokens))
        yield SimulatedCall(
            call_id=f"g{number}",
            tenant=f"group-{group}",
            at_s=at_s,
            input_tokens=load.system_tokens + load.question_tokens,
            output_tokens=load.output_tokens,
            block_hashes=chained(parts, load.block_tokens),
            block_tokens=load.block_tokens,
        )


def chained(parts: Sequence[tuple[int, int]], block_tokens: int) -> tuple[int, ...]:
    """Hashes of the full blocks of the text that consists of ``parts``: (content, tokens) in
    order. Every part must begin at the boundary of a block."""
    hashes: list[int] = []
    before = 0
    for content, tokens in parts:
        for index in range(tokens // block_tokens):
            before = hash((before, content, index)) & _MASK
            hashes.append(before)
    return tuple(hashes)
