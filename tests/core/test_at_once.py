"""A call that comes while nothing waits is decided as if it had been queued for that moment.

Measured: effects, views, tags and free replicas of two pools that hear the same random events, of
which one queues every call.
"""

from __future__ import annotations

import random
from typing import Any, cast

import msgspec
import pytest

from gateway.core.caches.prefix_chain import PrefixChain
from gateway.core.dispatch.dispatcher import Dispatcher
from gateway.core.dispatch.effects import Effect, Grant, ReplicaTelemetry, Ticket, Usage
from gateway.core.dispatch.placement import Placement
from gateway.core.priority import PriorityClass
from gateway.core.queues.fair_queue import StartTimeFairQueue
from tests.core.factories import BATCH, INTERACTIVE, config, dispatcher, grants, ticket

RUNS, STEPS = 10, 150
PROMPTS = [tuple(range(start, start + 8)) for start in (0, 0, 100, 200, 300)]


def random_ticket(rng: random.Random, now_s: float, number: int) -> Ticket:
    return ticket(
        rng.choice("abc"),
        rng.choice(list(PriorityClass)),
        call_id=f"call-{number}",
        arrived_s=now_s,
        deadline_s=now_s + rng.choice((0.0, 0.3, 100.0)),
        input_tokens=rng.choice((10, 900, 2_500)),
        output_tokens=rng.choice((1, 300)),
        eligible=rng.choice((None, None, None, frozenset({"r0"}), frozenset({"r7"}))),
        prefix=PrefixChain(rng.choice(PROMPTS), 64.0),
        conversation=rng.randrange(3),
        prompt_hash=rng.randrange(5),
    )


class Twins:
    """Two pools that hear the same; one of them queues every call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
        self.pools = [dispatcher(config(3, 2, **changes), seed=5) for _ in range(2)]
        self.taken_at_once = 0
        first, at_once = self.pools[0]._placement, Placement.at_once

        def only_first(placement: Placement, asked: Ticket, now_s: float) -> Grant | None:
            grant = at_once(placement, asked, now_s) if placement is first else None
            self.taken_at_once += grant is not None
            return grant

        monkeypatch.setattr(Placement, "at_once", only_first)

    def hear(self, event: str, *values: Any, **named: Any) -> list[Effect]:
        told, other = [getattr(pool, event)(*values, **named) for pool in self.pools]
        assert told == other
        assert _remembered(self.pools[0]) == _remembered(self.pools[1])
        return cast(list[Effect], told)


def _remembered(pool: Dispatcher) -> tuple[object, ...]:
    waiting = pool._waiting
    queues = cast(dict[PriorityClass, StartTimeFairQueue], waiting.queues).values()
    tags = [(queue.tags(), queue.virtual_time) for queue in queues]
    return pool.view(), tags, pool.next_wake, pool._roster.free, len(waiting)


@pytest.mark.parametrize(
    "changes",
    [
        {"routing": "bounded"},
        {"routing": "round_robin", "batch_every": 1, "aged_after_s": (9.0, 0.0, 0.0)},
        {"routing": "least_cost", "batch_share_ratio": 0.4, "batch_every": 2},
    ],
)
def test_it_changes_no_decision(monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]) -> None:
    taken = 0
    for seed in range(RUNS):
        with monkeypatch.context() as patch:
            taken += _run(Twins(patch, **changes), random.Random(seed))
    assert taken > RUNS


def _run(twins: Twins, rng: random.Random) -> int:
    now_s, running, failed = 0.0, list[tuple[Ticket, int]](), list[Ticket]()
    asked: dict[str, Ticket] = {}
    for number in range(STEPS):
        now_s += rng.choice((0.0, 0.01, 0.2, 2.0))
        step = rng.random()
        if step < 0.4 or not running:
            one = random_ticket(rng, now_s, number)
            if failed and rng.random() < 0.5:
                one = msgspec.structs.replace(failed.pop(), again=True, excluded=frozenset({"r1"}))
            asked[one.call_id] = one
            effects = twins.hear("submit", one, now_s)
        elif step < 0.5:
            effects = twins.hear("first_event", rng.choice(running)[1], now_s)
        elif step < 0.55:
            sample = ReplicaTelemetry("r0", now_s, running=1, waiting=rng.choice((0, 9)))
            effects = twins.hear("apply", sample, now_s)
        else:
            call, grant_id = running.pop(rng.randrange(len(running)))
            refund = rng.random() < 0.2
            failed += [call] * refund
            usage = None if refund else Usage(call.input_tokens, 0, rng.randrange(400))
            effects = twins.hear("release", grant_id, usage, now_s, refund=refund)
        running += [(asked[grant.call_id], grant.grant_id) for grant in grants(effects)]
    return twins.taken_at_once


def test_a_free_slot_is_given_without_the_queue_and_a_held_one_is_not() -> None:
    pool = dispatcher(config(1, 10))
    for _ in range(7):
        assert grants(pool.submit(ticket(klass=BATCH), 0.0))
    assert grants(pool.submit(ticket(klass=INTERACTIVE), 0.0))
    assert pool.submit(ticket(klass=BATCH), 0.0) == []
    assert grants(pool.submit(ticket(klass=INTERACTIVE), 0.0))
