"""The project's own scenarios, by name.

The fleet, unless said otherwise: 8 replicas, each with at most 256 sequences, a chunk budget of
8,192 tokens, a step of 20 ms + 0.1 ms per sequence + prompt tokens / 20,480 per second, 250,000
tokens of KV. The first part of a run is not counted (``warm_up_s``). Where a scenario is about
slots, a slot is a sequence of a replica whose step takes 30 ms.

Limits of waiting, queues and shedding are off, and no tenant's share of a batch is bounded, unless
the scenario is about them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from gateway.core.dispatch.effects import PoolConfig
from gateway.core.priority import PriorityClass
from gateway.simulation.clients.backlog import Backlog, Flow, Flows, Ticking
from gateway.simulation.clients.workload import OpenLoop, Workload
from gateway.simulation.engines.fleet import FleetConfig
from gateway.simulation.scenario import EngineConfigs, Scenario, open_pool
from gateway.simulation.step_time import SequenceStep
from gateway.simulation.workloads.overload import OVERLOAD_SCENARIOS
from gateway.simulation.workloads.prefixes import (
    GroupLoad,
    PrefixLoad,
    group_calls,
    prefix_calls,
)
from gateway.simulation.workloads.sessions import SessionLoad, Sessions

INTERACTIVE, STANDARD, BATCH = PriorityClass
SLOT_STEP = SequenceStep(base_s=0.030, per_sequence_s=0.0)


def fleet(
    replicas: int, config: FleetConfig | None = None, *, slow: int = 0
) -> dict[str, EngineConfigs]:
    """``slow``: so many run at half speed."""
    config = FleetConfig() if config is None else config
    return {
        f"r{number}": replace(config, slowdown=2.0) if number < slow else config
        for number in range(replicas)
    }


def slot_fleet(replicas: int, slots: int) -> dict[str, EngineConfigs]:
    return fleet(replicas, FleetConfig(step=SLOT_STEP, sequences=slots))


def pool(
    engines: Mapping[str, EngineConfigs], slots: int = 256, kv_tokens: int = 250_000
) -> PoolConfig:
    config = open_pool(engines, slots=slots, kv_tokens=kv_tokens)
    return replace(config, step_budget_tokens=8_192)


def _prefixes(load: PrefixLoad) -> Callable[[int, float], Workload]:
    return lambda seed, seconds: OpenLoop(prefix_calls(load, seed, seconds))


def _groups(load: GroupLoad) -> Callable[[int, float], Workload]:
    return lambda seed, seconds: OpenLoop(group_calls(load, seed, seconds))


def _sessions(load: SessionLoad) -> Callable[[int, float], Workload]:
    return lambda seed, seconds: Sessions(load, seed, seconds)


def _flows(*flows: Flow) -> Callable[[int, float], Workload]:
    return lambda seed, seconds: Flows(flows, seed, seconds)


_EIGHT = fleet(8)
_HALF_SPEED = fleet(8, slow=2)
_GROUPS = fleet(4, FleetConfig(block_tokens=128))
_TIGHT = fleet(4, FleetConfig(block_tokens=128, kv_tokens=60_000))
_ONE = slot_fleet(1, 32)
_PLACES = slot_fleet(8, 4)
_LONG = slot_fleet(1, 8)

# Four replicas without any cache: a step serves about 102 sequences (KV), so a call of 2,176 + 256
# tokens costs 2,176 / 20,480 s of prefill and 256 / 102 of a step of 30.2 ms.
GROUP_CAPACITY_CPS = 4 / (2_176 / 20_480 + 256 / 102 * 0.0302)
# With 60,000 tokens of KV 24 sequences fit, and a step is 22.4 ms.
TIGHT_CAPACITY_CPS = 4 / (2_176 / 20_480 + 256 / 24 * 0.0224)
# The same with every system prompt cached on one of the four: 70 sequences beside 16 prompts.
WARM_CAPACITY_CPS = 4 / (128 / 20_480 + 256 / 70 * 0.027)
_CHATS = tuple(Backlog(f"chat-{number}", 4, 500, 200) for number in range(4))

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            name="uniform",
            about="150 prefixes of 6,000 tokens, uniform, near the knee: 15 calls/s",
            engines=_EIGHT,
            pool=pool(_EIGHT),
            workload=_prefixes(PrefixLoad(15.0, 150, 6_000, 1_200, 1_000)),
            seconds=240.0,
            warm_up_s=80.0,
        ),
        Scenario(
            name="zipf",
            about="150 prefixes of 6,000 tokens, Zipf 1.1: 17 calls/s",
            engines=_EIGHT,
            pool=pool(_EIGHT),
            workload=_prefixes(PrefixLoad(17.0, 150, 6_000, 1_200, 1_000, skew=1.1)),
            seconds=240.0,
            warm_up_s=80.0,
        ),
        Scenario(
            name="hot",
            about="one prefix of 6,000 tokens: 20 calls/s",
            engines=_EIGHT,
            pool=pool(_EIGHT),
            workload=_prefixes(PrefixLoad(20.0, 1, 6_000, 1_200, 1_000)),
            seconds=240.0,
            warm_up_s=80.0,
        ),
        Scenario(
            name="multi_turn",
            about="sessions of 8 turns behind one system prompt: 3 new ones a second",
            engines=_EIGHT,
            pool=pool(_EIGHT),
            workload=_sessions(SessionLoad()),
            seconds=400.0,
            warm_up_s=150.0,
        ),
        Scenario(
            name="half_speed",
            about="multi_turn, two of eight replicas at half speed",
            engines=_HALF_SPEED,
            pool=pool(_HALF_SPEED),
            workload=_sessions(SessionLoad()),
            seconds=400.0,
            warm_up_s=150.0,
        ),
        Scenario(
            name="groups",
            about="64 tenants with a system prompt each, one sends 8 times as much: 1.3 x capacity",
            engines=_GROUPS,
            pool=pool(_GROUPS),
            workload=_groups(GroupLoad(1.3 * GROUP_CAPACITY_CPS)),
            seconds=240.0,
            warm_up_s=60.0,
        ),
        Scenario(
            name="groups_tight",
            about="groups with 60,000 tokens of KV: no replica can hold every system prompt",
            engines=_TIGHT,
            pool=pool(_TIGHT, kv_tokens=60_000),
            workload=_groups(GroupLoad(1.3 * TIGHT_CAPACITY_CPS)),
            seconds=240.0,
            warm_up_s=60.0,
        ),
        Scenario(
            name="groups_saturated",
            about="groups_tight at 1.3 x what it can do with warm caches: everybody waits",
            engines=_TIGHT,
            pool=pool(_TIGHT, kv_tokens=60_000),
            workload=_groups(GroupLoad(1.3 * WARM_CAPACITY_CPS)),
            seconds=240.0,
            warm_up_s=60.0,
        ),
        Scenario(
            name="return_from_idle",
            about="32 slots, a and b saturate them, c is away until 400 s",
            engines=_ONE,
            pool=pool(_ONE, slots=32),
            workload=_flows(
                Backlog("a", 96, 2_000, 300),
                Backlog("b", 48, 2_000, 300),
                Backlog("c", 48, 2_000, 300, starts_s=400.0),
            ),
            seconds=700.0,
            warm_up_s=400.0,
        ),
        Scenario(
            name="placement",
            about="8 x 4 slots, c may use one replica only, d is away until 400 s",
            engines=_PLACES,
            pool=pool(_PLACES, slots=4),
            workload=_flows(
                Backlog("a", 64, 2_000, 300),
                Backlog("b", 64, 2_000, 300),
                Backlog("c", 16, 2_000, 300, eligible=frozenset({"r0"})),
                Backlog("d", 64, 2_000, 300, starts_s=400.0),
            ),
            seconds=700.0,
            warm_up_s=400.0,
        ),
        Scenario(
            name="big_call",
            about="50 backlogged tenants, a light one sends 20,000 tokens every 120 s",
            engines=_PLACES,
            pool=pool(_PLACES, slots=4),
            workload=_flows(
                *(Backlog(f"t{number}", 4, 400, 50) for number in range(50)),
                Ticking("light", 1 / 120, 19_000, 500, starts_s=60.0),
            ),
            seconds=310.0,
            warm_up_s=30.0,
        ),
        Scenario(
            name="long_contexts",
            about="8 slots, one tenant sends 32k contexts beside four that chat",
            engines=_LONG,
            pool=replace(pool(_LONG, slots=8), batch_share_ratio=1.25),
            workload=_flows(
                Backlog("long", 8, 32_000, 200),
                *_CHATS,
            ),
            seconds=600.0,
            warm_up_s=100.0,
        ),
        Scenario(
            name="chats_alone",
            about="long_contexts without the tenant of the long ones",
            engines=_LONG,
            pool=pool(_LONG, slots=8),
            workload=_flows(*_CHATS),
            seconds=600.0,
            warm_up_s=100.0,
        ),
        Scenario(
            name="classes",
            about="a's interactive load is 0.3 of capacity, a's and b's standard are backlogged",
            engines=_ONE,
            pool=pool(_ONE, slots=32),
            workload=_flows(
                Ticking("a", 0.3 * 32 / 9.5, 400, 300, klass=INTERACTIVE, random=True),
                Backlog("a", 64, 400, 300, name="-standard"),
                Backlog("b", 64, 400, 300),
            ),
            seconds=800.0,
            warm_up_s=100.0,
        ),
        Scenario(
            name="short_calls",
            about="60 tokens in, 4 out: does holding calls back cost throughput?",
            engines=fleet(1),
            pool=pool(fleet(1)),
            workload=_flows(Backlog("a", 1_000, 60, 4), Backlog("b", 1_000, 60, 4)),
            seconds=60.0,
            warm_up_s=10.0,
        ),
    )
} | OVERLOAD_SCENARIOS
