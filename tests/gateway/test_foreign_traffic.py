"""A replica that serves somebody else as well is told, once, and so is its end."""

from __future__ import annotations

from gateway.core.clock import SystemClock
from gateway.core.dispatch.effects import PoolView
from gateway.core.events import Degraded, Event, Restored
from gateway.foreign_traffic import ForeignTraffic


def view(*slugs: str) -> PoolView:
    return PoolView({}, {}, {}, {}, None, {}, foreign_traffic=frozenset(slugs))


def test_it_is_told_once_and_so_is_its_end() -> None:
    events: list[Event] = []
    watch = ForeignTraffic(events.append, SystemClock())
    for slugs in ((), ("r1",), ("r1",), ("r1", "r2"), ()):
        watch.look({"pool": view(*slugs)})
    told = [(type(each), each.part) for each in events if isinstance(each, Degraded | Restored)]
    assert told[:2] == [(Degraded, "foreign_traffic:r1"), (Degraded, "foreign_traffic:r2")]
    assert sorted(part for kind, part in told if kind is Restored) == [
        "foreign_traffic:r1",
        "foreign_traffic:r2",
    ]
