"""The published comparisons as scenarios: the OSDI'24 suites and the traces.

``suite_scenarios`` need no file. ``trace_scenarios`` read theirs from a folder when they are run:

  arena     the arena trace of OSDI'24: 27 clients, 1,500 calls in 600 s, on one A10G
  mooncake  FAST'25 conversations, 12,031 prompts in an hour, on eight nodes that prefill a 70B
  model

``trace_scenario`` runs any other file on a fleet. In front of the S-LoRA engine the gateway knows
the engine's KV capacity and nothing else; telemetry is absent unless asked for. Mooncake is about
routing alone, so every call is sent to a node when it arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from gateway.simulation.call import SimulatedCall
from gateway.simulation.clients.workload import OpenLoop, Workload
from gateway.simulation.engines.fleet import FleetConfig
from gateway.simulation.engines.prefill_node import PrefillNodeConfig
from gateway.simulation.engines.slora import SloraConfig
from gateway.simulation.scenario import EngineConfigs, Scenario, open_pool, sends_at_once
from gateway.simulation.traces.formats import read_trace
from gateway.simulation.workloads.osdi import SUITES, Suite, jittered, suite_calls

ARENA_FILE = "vtc_osdi24_real_trace_and_measured.csv.gz"
MOONCAKE_FILE = "mooncake_fast25_conversation.jsonl.gz"
_A10G = SloraConfig()


def suite_scenarios() -> dict[str, Scenario]:
    return {name: _suite(suite) for name, suite in SUITES.items()}


def trace_scenarios(folder: Path) -> dict[str, Scenario]:
    return {
        "arena": arena(folder / ARENA_FILE),
        "arena_jittered": replace(
            arena(folder / ARENA_FILE, jitter_s=1.0),
            name="arena_jittered",
            about="the arena trace, every arrival moved by up to 1 s",
        ),
        "mooncake": mooncake(folder / MOONCAKE_FILE),
    }


def arena(path: Path, jitter_s: float = 0.0) -> Scenario:
    def workload(seed: int, seconds: float) -> Workload:
        calls = _until(_read(path), seconds)
        return OpenLoop(jittered(calls, seed, jitter_s) if jitter_s else calls)

    return _slora("arena", "27 clients of the chatbot arena on one A10G", workload, 1e6, {})


def mooncake(path: Path) -> Scenario:
    engines: dict[str, EngineConfigs] = {f"node-{n}": PrefillNodeConfig() for n in range(8)}

    def workload(seed: int, seconds: float) -> Workload:
        calls = _until(_read(path), seconds)
        return OpenLoop(replace(call, output_tokens=1) for call in calls)

    return Scenario(
        name="mooncake",
        about="conversations of Mooncake on eight nodes that prefill a 70B model",
        engines=engines,
        pool=sends_at_once(open_pool(engines, slots=1, kv_tokens=PrefillNodeConfig().kv_tokens)),
        workload=workload,
        seconds=36_000.0,
    )


def trace_scenario(path: Path, form: str | None, replicas: int) -> Scenario:
    """Raises ``TraceError`` now rather than later."""
    calls = read_trace(path, form)
    config = FleetConfig()
    block_tokens = next((call.block_tokens for call in calls if call.block_tokens), 0)
    if block_tokens:
        config = replace(config, block_tokens=block_tokens)
    engines: dict[str, EngineConfigs] = {f"r{number}": config for number in range(replicas)}
    room = config.kv_tokens // config.block_tokens * config.block_tokens
    fitting = [call for call in calls if call.input_tokens + call.output_tokens <= room]
    return Scenario(
        name=path.name.split(".")[0],
        about=f"{len(fitting)} calls of {path.name} on {replicas} replicas",
        engines=engines,
        pool=replace(
            open_pool(engines, slots=config.sequences, kv_tokens=config.kv_tokens),
            step_budget_tokens=config.step_tokens,
        ),
        workload=lambda seed, seconds: OpenLoop(_until(fitting, seconds)),
        seconds=fitting[-1].at_s + 600.0 if fitting else 0.0,
    )


def _suite(suite: Suite) -> Scenario:
    about = f"OSDI'24 {suite.name}: {len(suite.rates)} clients on one A10G"
    return _slora(
        suite.name,
        about,
        lambda seed, seconds: OpenLoop(_until(suite_calls(suite, seed), seconds)),
        1e6,
        suite.weight_of,
    )


def _slora(
    name: str,
    about: str,
    workload: Callable[[int, float], Workload],
    seconds: float,
    weights: Mapping[str, float],
) -> Scenario:
    engines: dict[str, EngineConfigs] = {"a10g": _A10G}
    pool = open_pool(engines, slots=_A10G.sequences, kv_tokens=_A10G.kv_tokens, weights=weights)
    return Scenario(
        name=name,
        about=about,
        engines=engines,
        pool=replace(pool, adaptive_slots=False),
        workload=workload,
        seconds=seconds,
        osdi=True,
        bound=4.0 * _A10G.kv_tokens,  # 2U, U = max(longest prompt, 2 * KV tokens)
        progress_every=1,
    )


def _until(calls: list[SimulatedCall], seconds: float) -> list[SimulatedCall]:
    return [call for call in calls if call.at_s < seconds]


@cache
def _read(path: Path) -> list[SimulatedCall]:
    return read_trace(path)
