"""How do the demo's tenants use the product? Each in its own way, for ever.

Short interactive chats; a heavy batch of long answers; bursts after silence; one long system prompt
shared by all calls; the same with the date at its top, which spoils the prefix cache.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

HANDBOOK = "Answer as the desk of a careful publisher. " + " ".join(
    f"Rule {number}: state the source, the date and the doubt of item {number}."
    for number in range(1, 90)
)

BURST_EVERY_S = 12.0


@dataclass(frozen=True, slots=True)
class Ask:
    """One chat. ``pause_s`` is waited before it is sent."""

    pause_s: float
    prompt: str
    max_tokens: int
    system: str = ""
    model: str = ""  # empty: the model under load


Way = Callable[[random.Random], AsyncIterator[Ask]]


async def chatting(rng: random.Random) -> AsyncIterator[Ask]:
    """People at a keyboard; now and then they ask the real model."""
    while True:
        model = "real" if rng.random() < 0.1 else ""
        topic = rng.choice(("the sea", "a bridge", "bread", "the moon", "a letter"))
        tokens = 24 if model else rng.randint(30, 120)
        yield Ask(rng.expovariate(1 / 0.6), f"Tell me about {topic}.", tokens, model=model)


async def heavy(rng: random.Random) -> AsyncIterator[Ask]:
    """Long answers, one after the other, without a pause."""
    while True:
        yield Ask(0, f"Summarise chapter {rng.randint(1, 400)}. " * 20, rng.randint(400, 900))


async def bursts(rng: random.Random) -> AsyncIterator[Ask]:
    """Silence, then every caller at the same moment, several times."""
    while True:
        yield Ask(BURST_EVERY_S - time.time() % BURST_EVERY_S, _price(rng), 60)
        for _ in range(2):
            yield Ask(0, _price(rng), 60)


async def shared_prefix(rng: random.Random) -> AsyncIterator[Ask]:
    """The same long instructions before every question."""
    while True:
        yield Ask(rng.expovariate(1 / 0.8), _question(rng), 80, system=HANDBOOK)


async def date_at_the_top(rng: random.Random) -> AsyncIterator[Ask]:
    """The same instructions, but what changes stands first."""
    while True:
        stamp = f"It is {time.time():.3f}. "
        yield Ask(rng.expovariate(1 / 0.8), _question(rng), 80, system=stamp + HANDBOOK)


# tenant -> (its way, how many callers follow it at once)
WAYS: dict[str, tuple[Way, int]] = {
    "acme": (chatting, 4),
    "heavy-labs": (heavy, 24),
    "bursty-bikes": (bursts, 16),
    "prefix-press": (shared_prefix, 4),
    "date-desk": (date_at_the_top, 4),
}


def _price(rng: random.Random) -> str:
    return f"What does bike {rng.randint(1, 900)} cost?"


def _question(rng: random.Random) -> str:
    return f"What do the rules say about item {rng.randint(1, 89)}?"
