"""What is a scenario, and how is it run under a policy?

A scenario is data: engines, the pool as the operator configured it, who calls, for how long. Only
the policy changes between the columns of a comparison; the calls are the same for the same seed.
Times are seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from gateway.core.dispatch.effects import PoolConfig, ReplicaConfig
from gateway.simulation.clients.workload import Workload
from gateway.simulation.engines.admission import SCHEDULERS
from gateway.simulation.engines.fleet import FleetConfig, FleetEngine
from gateway.simulation.engines.model import EngineModel
from gateway.simulation.engines.prefill_node import PrefillNode, PrefillNodeConfig
from gateway.simulation.engines.slora import SloraConfig, SloraEngine
from gateway.simulation.front import NEVER_S, DirectFront, DispatcherFront, Front
from gateway.simulation.policy import Policy
from gateway.simulation.simulator import Run, Simulator, TelemetryPlan

EngineConfigs = FleetConfig | SloraConfig | PrefillNodeConfig


@dataclass(frozen=True, slots=True)
class Objectives:
    """A call is good when it completed within both. By class in ``ttft_s``."""

    ttft_s: tuple[float, float, float] = (2.0, 10.0, 300.0)
    tpot_s: float = 0.1


@dataclass(frozen=True, slots=True)
class Scenario:
    """``seconds``: calls arrive until then; ``warm_up_s``: calls that arrive before do not count.
    ``osdi``: simulated until the last call ended, with the metrics of the OSDI'24 artifact.
    ``bound``: what the accumulated difference must not exceed, in service tokens."""

    name: str
    about: str
    engines: Mapping[str, EngineConfigs]
    pool: PoolConfig
    workload: Callable[[int, float], Workload]  # seed, seconds
    seconds: float
    warm_up_s: float = 0.0
    osdi: bool = False
    bound: float | None = None
    telemetry: TelemetryPlan | None = None
    progress_every: int = 16
    objectives: Objectives = Objectives()


def simulate(
    scenario: Scenario,
    policy: Policy,
    seed: int,
    *,
    seconds: float | None = None,
    progress: Callable[[float], None] | None = None,
) -> Run:
    seconds = scenario.seconds if seconds is None else seconds
    engines = {
        slug: _engine(config, policy, scenario.pool.weights)
        for slug, config in scenario.engines.items()
    }
    simulator = Simulator(
        engines,
        _front(scenario, policy, seed),
        scenario.workload(seed, seconds),
        telemetry=scenario.telemetry,
        progress_every=scenario.progress_every,
        look_every_s=1.0,
    )
    return simulator.run_until(NEVER_S if scenario.osdi else seconds, progress)


def open_pool(
    engines: Mapping[str, EngineConfigs],
    *,
    slots: int,
    kv_tokens: int,
    weights: Mapping[str, float] | None = None,
) -> PoolConfig:
    """Nothing refuses a call: no wait limit, no queue bound, no shedding; no tenant's share of a
    batch is limited. What a scenario is about is switched on again by name."""
    return PoolConfig(
        replicas=tuple(ReplicaConfig(slug, slots, kv_tokens=kv_tokens) for slug in engines),
        weights=dict(weights or {}),
        queue_calls_per_tenant=10**9,
        queue_bytes_per_tenant=10**15,
        queue_calls_per_class=10**9,
        queue_bytes_per_class=10**15,
        wait_limit_s=(NEVER_S, NEVER_S, NEVER_S),
        shed_wait_ratio=0.0,
        standing_queue_ratio=0.0,
        batch_share_ratio=0.0,
    )


def sends_at_once(pool: PoolConfig) -> PoolConfig:
    """Without the rule of when to dispatch: nothing waits in the gateway."""
    unlimited = 10**6
    return replace(
        pool,
        replicas=tuple(replace(replica, slots=unlimited) for replica in pool.replicas),
        unstarted_calls=unlimited,
        kv_in_flight_ratio=float(unlimited),
        adaptive_slots=False,
    )


def _front(scenario: Scenario, policy: Policy, seed: int) -> Front:
    if not policy.queue:
        return DirectFront(tuple(scenario.engines), policy.calls_per_minute)
    pool = replace(scenario.pool, queue=policy.queue, routing=policy.routing)
    if policy.strict:
        pool = replace(pool, quantum_tokens=0, look_ahead_calls=0)
    if policy.sends_at_once:
        pool = sends_at_once(pool)
    return DispatcherFront(pool, seed=seed, knows_lengths=policy.knows_lengths)


def _engine(config: EngineConfigs, policy: Policy, weights: Mapping[str, float]) -> EngineModel:
    if isinstance(config, SloraConfig):
        return SloraEngine(config, SCHEDULERS[policy.scheduler](weights))
    if isinstance(config, PrefillNodeConfig):
        return PrefillNode(config)
    return FleetEngine(config)
