"""Health machines in every state."""

from __future__ import annotations

from collections.abc import Callable

from gateway.core.health.ejection import may_eject
from gateway.core.health.machine import HealthState, ReplicaHealthMachine


def machine(slots: int = 32, *, may: bool = True, proven: bool = True) -> ReplicaHealthMachine:
    made = ReplicaHealthMachine("r0", slots, lambda: may, now_s=0.0)
    if proven:
        made.probe_passed(0.0)
    return made


def down(slots: int = 32) -> ReplicaHealthMachine:
    made = machine(slots)
    made.connection_failed(1.0)
    made.probe_failed(1.0, refused=True)
    made.probe_failed(1.2, refused=True)
    assert made.state is HealthState.DOWN
    return made


def ejected(now_s: float = 100.0) -> ReplicaHealthMachine:
    made = machine()
    fail_calls(made, 5, now_s)
    assert made.state is HealthState.EJECTED
    return made


def fail_calls(made: ReplicaHealthMachine, number: int, now_s: float) -> None:
    """Of several callers."""
    for each in range(number):
        made.call_failed(now_s, f"caller {each % 2}", others=True)


def seconds_away(made: ReplicaHealthMachine, now_s: float) -> int:
    """Whole seconds until it admits calls again; moves it there."""
    return next(away for away in range(400) if made.health(now_s + away).admits)


def pool_of(size: int) -> list[ReplicaHealthMachine]:
    pool: list[ReplicaHealthMachine] = []

    def consent(number: int) -> Callable[[], bool]:
        return lambda: may_eject(pool[number], pool)

    pool += [ReplicaHealthMachine(f"r{n}", 8, consent(n), now_s=0.0) for n in range(size)]
    return pool


def half_open(slots: int = 32) -> ReplicaHealthMachine:
    made = down(slots)
    made.probe_passed(6.2)
    made.probe_passed(11.2)
    assert made.state is HealthState.HALF_OPEN
    return made
