from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from functools import partial
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError

from gateway.core.clock import SystemClock
from gateway.core.dispatch.effects import PoolConfig
from gateway.core.events import ConfigApplied, Degraded, Event, Restored
from gateway.models import Replica
from gateway.services import aliases, pools, replicas
from gateway.services.terms import PoolTerms, ReplicaTerms
from gateway.snapshot import Snapshot, SnapshotHolder
from gateway.snapshot.build import build
from gateway.snapshot.parameters import NOT_PARAMETERS, PARAMETERS, with_parameters
from tenants.services import keys, organizations
from tenants.snapshot import current_version
from tests import factories
from tests.factories import TESTER
from workers.threads import with_database

EMPTY = Snapshot(version=1, loaded_at=0.0, tenants={}, keys={}, pools={}, aliases={}, parameters={})


class Source:
    """A database of one number, which may fail or hang."""

    def __init__(self) -> None:
        self.number = 1
        self.fails = False
        self.stale_at: float | None = None
        self.answers = threading.Event()
        self.answers.set()

    def version(self) -> int:
        self.answers.wait(10)
        if self.fails:
            raise OperationalError("gone")
        return self.number

    def build(self) -> Snapshot:
        return replace(EMPTY, version=self.version(), stale_at=self.stale_at)


class FastClock(SystemClock):
    """A hundred times as fast, so that three seconds of silence pass at once."""

    def __init__(self, times: float = 100) -> None:
        self._times = times

    def monotonic(self) -> float:
        return time.monotonic() * self._times


@asynccontextmanager
async def started(
    source: Source, events: list[Event], clock: SystemClock | None = None
) -> AsyncIterator[SnapshotHolder]:
    holder = SnapshotHolder(
        source.build,
        source.version,
        events.append,
        clock or SystemClock(),
        poll_interval_s=0.01,
    )
    await holder.start()
    try:
        yield holder
    finally:
        source.answers.set()
        await holder.stop()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.005)


async def test_a_new_version_is_built_and_handed_to_the_loop() -> None:
    source, seen = Source(), list[threading.Thread]()
    events: list[Event] = []
    async with started(source, events) as holder:
        holder.subscribe(lambda snapshot: seen.append(threading.current_thread()))
        source.number = 2
        await until(lambda: holder.current.version == 2)
    assert seen == [threading.current_thread()]
    assert [event.version for event in events if isinstance(event, ConfigApplied)] == [2]


async def test_a_stale_snapshot_is_built_again_under_the_same_version() -> None:
    source = Source()
    events: list[Event] = []
    source.stale_at = time.time() + 0.05
    async with started(source, events) as holder:
        first = holder.current
        source.stale_at = None
        await until(lambda: holder.current is not first)
    assert holder.current.version == 1
    assert first.stale_at is not None
    assert time.time() >= first.stale_at


async def test_a_nudge_does_not_wait_for_the_next_look() -> None:
    source = Source()
    holder = SnapshotHolder(
        source.build, source.version, lambda _: None, SystemClock(), poll_interval_s=60
    )
    await holder.start()
    source.number = 2
    holder.nudge()
    await until(lambda: holder.current.version == 2)
    await holder.stop()


async def test_a_start_without_database_fails() -> None:
    source = Source()
    source.fails = True
    holder = SnapshotHolder(source.build, source.version, lambda _: None, SystemClock())
    with pytest.raises(OperationalError):
        await holder.start()


async def test_a_failing_database_is_degraded_and_the_last_snapshot_stays() -> None:
    source = Source()
    events: list[Event] = []
    async with started(source, events) as holder:
        source.fails = True
        await until(lambda: _told(holder, events))
        assert isinstance(events[0], Degraded)
        assert (events[0].part, holder.current.version) == ("database", 1)
        source.fails = False
        source.number = 3
        await until(lambda: holder.current.version == 3)

        def is_restored() -> bool:
            holder.watch()
            return any(isinstance(event, Restored) for event in events)

        await until(is_restored)


@pytest.mark.alone
async def test_a_frozen_database_never_holds_the_loop() -> None:
    source, events = Source(), list[Event]()
    async with started(source, events, FastClock()) as holder:
        source.answers.clear()
        lags = []
        for _ in range(20):
            before = time.monotonic()
            await asyncio.sleep(0.005)
            holder.watch()
            lags.append(time.monotonic() - before)
        assert max(lags) < 0.5
        assert isinstance(events[0], Degraded)
        assert events[0].why == "the database does not answer"
        source.answers.set()
        source.number = 2
        await until(lambda: holder.current.version == 2)


async def test_five_minutes_without_a_database_leave_the_last_snapshot_in_force() -> None:
    """Row 34: keys are served from it. A clock that is ten thousand times as fast."""
    source, events = Source(), list[Event]()
    async with started(source, events, FastClock(10_000)) as holder:
        source.answers.clear()
        source.number = 2
        await until(lambda: holder.silence_s >= 300)
        holder.watch()
        assert holder.current.version == 1
        assert isinstance(events[0], Degraded)
        source.answers.set()
        await until(lambda: holder.current.version == 2)


def serve_a_model() -> None:
    pools.create(slug="p1", terms=PoolTerms(input_per_mtok=5), actor=TESTER)
    aliases.assign(name="m1", pool="p1", upstream_model="up/m1", actor=TESTER)
    terms = ReplicaTerms(kind="vllm", base_url="http://10.0.0.1:8000", slots=7)
    replicas.create(slug="r1", pool="p1", terms=terms, api_key="secret-key", actor=TESTER)


@pytest.mark.django_db
def test_the_snapshot_holds_what_was_configured() -> None:
    factories.organization("acme")
    serve_a_model()
    snapshot = build()
    pool = snapshot.pools["p1"]
    [replica] = pool.replicas
    assert (pool.prices.input_per_mtok, pool.routing) == (5, "bounded")
    assert (replica.slots, replica.state, replica.api_key) == (7, "enabled", "secret-key")
    assert (snapshot.aliases["m1"].pool, snapshot.aliases["m1"].upstream_model) == ("p1", "up/m1")
    assert time.time() - 60 < snapshot.aliases["m1"].created_at <= time.time()
    assert "secret-key" not in repr(snapshot)
    assert (snapshot.version, "acme" in snapshot.tenants) == (current_version(), True)


@pytest.mark.django_db
def test_a_replica_made_again_under_its_slug_is_another_object() -> None:
    serve_a_model()
    before = build().pools["p1"].replicas[0].serial
    replicas.remove(slug="r1", actor=TESTER)
    terms = ReplicaTerms(kind="vllm", base_url="http://10.0.0.1:8000")
    replicas.create(slug="r1", pool="p1", terms=terms, actor=TESTER)
    assert build().pools["p1"].replicas[0].serial != before


@pytest.mark.django_db
def test_a_key_sealed_under_another_secret_disables_only_its_replica() -> None:
    serve_a_model()
    Replica.objects.update(sealed_api_key="gAAAAA-of-another-secret")
    [replica] = build().pools["p1"].replicas
    assert (replica.state, replica.api_key) == ("disabled", "")


@pytest.mark.alone
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("change", ["weight", "key", "suspension", "replica"])
async def test_a_change_is_in_force_within_a_second(change: str) -> None:
    """Row 22: with the interval of production."""

    def arrange() -> str:
        factories.organization("acme")
        serve_a_model()
        return factories.key("acme").key.key_id

    key_id = await with_database(arrange)
    writes: dict[str, Callable[[], object]] = {
        "weight": lambda: organizations.set_weight(slug="acme", weight=7, actor=TESTER, why="t"),
        "key": lambda: keys.disable(slug="acme", key_id=key_id, actor=TESTER),
        "suspension": lambda: organizations.suspend(slug="acme", actor=TESTER, why="test"),
        "replica": lambda: replicas.drain(slug="r1", actor=TESTER),
    }
    in_force: dict[str, Callable[[Snapshot], bool]] = {
        "weight": lambda s: s.tenants["acme"].weight == 7,
        "key": lambda s: not s.keys[key_id].enabled,
        "suspension": lambda s: s.tenants["acme"].suspended,
        "replica": lambda s: s.pools["p1"].replicas[0].state == "draining",
    }
    holder = SnapshotHolder(build, current_version, lambda _: None, SystemClock())
    await holder.start()
    await with_database(writes[change])
    written_s = time.monotonic()
    await until(lambda: in_force[change](holder.current))
    took_s = time.monotonic() - written_s
    await holder.stop()
    assert took_s <= 1.0


def test_a_parameter_of_the_pool_goes_before_that_of_all_pools() -> None:
    values = {("queue_calls_per_tenant", "*"): 7.0, ("queue_calls_per_tenant", "p1"): 3.0}
    snapshot = replace(EMPTY, parameters=values | {("wait_limit_batch_s", "*"): 9.5})
    default = PoolConfig(replicas=(), weights={})
    of_p1 = with_parameters(default, "p1", snapshot)
    assert (of_p1.queue_calls_per_tenant, of_p1.wait_limit_s) == (3, (30.0, 60.0, 9.5))
    assert with_parameters(default, "p2", snapshot).queue_calls_per_tenant == 7
    assert with_parameters(default, "p2", EMPTY) == default


@pytest.mark.django_db(transaction=True)
async def test_a_change_is_pushed_through_redis(redis_url: str, monkeypatch: Any) -> None:
    """Row 22: without waiting for the next look."""
    with_redis = replace(settings.FAIRWAY_TENANTS, redis_url=redis_url)
    monkeypatch.setattr(settings, "FAIRWAY_TENANTS", with_redis)
    await with_database(factories.organization, "acme")
    holder = SnapshotHolder(
        build,
        current_version,
        lambda _: None,
        SystemClock(),
        poll_interval_s=60,
        redis_url=redis_url,
    )
    await holder.start()
    for weight in (7, 8):
        change = partial(organizations.set_weight, actor=TESTER, why="test")
        await with_database(change, slug="acme", weight=weight)
        await until(partial(_weighs, holder, weight))
    await holder.stop()


@pytest.mark.django_db(transaction=True)
def test_a_write_goes_through_while_redis_is_away(monkeypatch: Any, free_port: int) -> None:
    nowhere = replace(settings.FAIRWAY_TENANTS, redis_url=f"redis://127.0.0.1:{free_port}/0")
    monkeypatch.setattr(settings, "FAIRWAY_TENANTS", nowhere)
    factories.organization("acme")
    assert current_version() == 1


def test_every_number_of_the_policies_is_a_parameter() -> None:
    known = {parameter.field for parameter in PARAMETERS.values()}
    assert known | NOT_PARAMETERS == {field.name for field in fields(PoolConfig)}
    assert not known & NOT_PARAMETERS


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_parameter_reaches_the_dispatcher_and_only_itself(name: str) -> None:
    parameter = PARAMETERS[name]
    assert parameter.least <= parameter.default <= parameter.most
    default = PoolConfig(replicas=(), weights={})
    value = parameter.least if parameter.default != parameter.least else parameter.most
    changed = with_parameters(default, "p1", replace(EMPTY, parameters={(name, "p1"): value}))
    (differs,) = [
        field.name
        for field in fields(PoolConfig)
        if getattr(changed, field.name) != getattr(default, field.name)
    ]
    assert differs == parameter.field
    now = getattr(changed, differs)
    assert (now if parameter.klass is None else now[parameter.klass]) == value
    assert type(now) is type(getattr(default, differs))


def _told(holder: SnapshotHolder, events: list[Event]) -> bool:
    """Whether a look at the database's state was worth an event."""
    holder.watch()
    return bool(events)


def _weighs(holder: SnapshotHolder, weight: float) -> bool:
    return holder.current.tenants["acme"].weight == weight
