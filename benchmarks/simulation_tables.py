"""The figures of the simulator, one table each: header and rows of text. All simulated."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, stdev

from gateway.simulation.metrics.service_difference import served_calls, service_between
from gateway.simulation.metrics.starvation import longest_gap_s, longest_wait_s
from gateway.simulation.metrics.summary import Summary, quantiles, summary
from gateway.simulation.policy import parse_policy
from gateway.simulation.report.table import figure_text
from gateway.simulation.scenario import Scenario, simulate
from gateway.simulation.simulator import Run, TelemetryPlan
from gateway.simulation.workloads.published import suite_scenarios, trace_scenarios
from gateway.simulation.workloads.scenarios import SCENARIOS

FAIR = "start_time_fair/bounded"
ROUTINGS = (
    "round_robin",
    "random",
    "power_of_two",
    "least_inflight",
    "longest_match",
    "threshold",
    "blend",
    "sticky",
    "bounded",
    "least_cost",
)
A10G = {  # published: tok/s, average difference
    "direct": (777, 433.5),
    "engine/lcf": (778, 323.8),
    "engine/vtc": (779, 251.7),
    "engine/oracle": (781, 227.5),
    "rpm/5": (340, 83.6),
    "rpm/20": (694, 195.7),
    "rpm/30": (747, 309.4),
}
Row = list[str]


def run(scenario: Scenario, policy: str, seed: int = 11) -> Run:
    return simulate(scenario, parse_policy(policy), seed)


def figures(scenario: Scenario, policy: str, seed: int = 11) -> Summary:
    return summary(run(scenario, policy, seed), scenario)


def figures_of(scenario: Scenario, wanted: Sequence[tuple[str, int]]) -> list[Summary]:
    """By (policy, seed), in that order; as many at once as there are cores."""
    context = get_context("fork")
    with ProcessPoolExecutor(
        mp_context=context, initializer=_adopt, initargs=(scenario,)
    ) as processes:
        return list(processes.map(_adopted_figures, wanted))


_adopted: list[Scenario] = []  # of this process


def _adopt(scenario: Scenario) -> None:
    _adopted[:] = [scenario]


def _adopted_figures(wanted: tuple[str, int]) -> Summary:
    return figures(_adopted[0], *wanted)


def arena(folder: Path) -> tuple[Row, list[Row]]:
    scenario = trace_scenarios(folder)["arena"]
    rows = []
    for policy, (throughput, average) in A10G.items():
        one = figures(scenario, policy)
        rows.append(
            [
                policy,
                str(one.completed),
                f"{throughput} / {one.throughput_tps:.0f}",
                f"{one.throughput_tps / throughput - 1:+.1%}",
                f"{average} / {_difference(one):.1f}",
                f"{_difference(one) / average - 1:+.1%}",
            ]
        )
    return ["policy", "served", "tok/s A10G / simulated", "", "avg diff A10G / simulated", ""], rows


def jittered(folder: Path, seeds: int = 12) -> tuple[Row, list[Row]]:
    absent = trace_scenarios(folder)["arena_jittered"]
    old = replace(absent, telemetry=TelemetryPlan(every_s=1.0, age_s=1.0))
    rows: list[Row] = []
    reference: dict[str, list[Summary]] = {}
    for name, scenario, policy in (
        ("engine's own first come", absent, "direct"),
        ("engine's own VTC", absent, "engine/vtc"),
        ("gateway, no metrics", absent, FAIR),
        ("gateway, metrics 1 s old", old, FAIR),
        ("gateway, lengths known", absent, f"{FAIR}/oracle"),
    ):
        runs = figures_of(scenario, [(policy, seed) for seed in range(1, seeds + 1)])
        reference.setdefault(policy, runs)
        rows.append(_jittered_row(name, runs, reference))
    header = ["", "avg diff", "of VTC", "tok/s", "of first come", "refused"]
    return header, rows


def _jittered_row(name: str, runs: list[Summary], reference: dict[str, list[Summary]]) -> Row:
    average = fmean(map(_difference, runs))
    throughput = fmean(one.throughput_tps for one in runs)
    vtc = fmean(map(_difference, reference.get("engine/vtc", runs)))
    first_come = fmean(one.throughput_tps for one in reference["direct"])
    return [
        name,
        f"{average:.1f} ± {stdev(map(_difference, runs)):.1f}",
        f"{average / vtc:.3f}" if "engine/vtc" in reference else "-",
        f"{throughput:.1f}",
        f"{throughput / first_come:.3f}",
        str(sum(sum(one.refused.values()) for one in runs)),
    ]


def bounds() -> tuple[Row, list[Row]]:
    rows = []
    for name in ("overload", "overload-multi", "overload-weighted", "weights-equal-rates"):
        scenario = suite_scenarios()[name]
        weights = scenario.pool.weights
        for policy in ("direct", "engine/vtc", FAIR, f"{FAIR}/oracle"):
            outcome = run(scenario, policy)
            one = summary(outcome, scenario)
            shares = "-"
            if weights:
                service = _service_between(outcome, 60.0, 330.0)
                least = min(service.values())
                shares = " : ".join(f"{service[who] / least:.2f}" for who in sorted(service))
            rows.append(
                [
                    name,
                    policy,
                    figure_text(one.throughput_tps),
                    figure_text(one.accumulated),
                    figure_text(scenario.bound),
                    shares,
                ]
            )
    return ["suite", "policy", "tok/s", "acc diff", "2U", "shares, 60 to 330 s"], rows


def routing(seeds: int) -> tuple[Row, list[Row]]:
    names = ("uniform", "zipf", "hot", "multi_turn", "half_speed")
    policies = ("direct", *(f"start_time_fair/{routing}" for routing in ROUTINGS))
    rows: dict[str, Row] = {policy: [policy] for policy in policies}
    for name in names:
        wanted = [(policy, 11 + seed) for policy in policies for seed in range(seeds)]
        runs = dict(zip(wanted, figures_of(SCENARIOS[name], wanted), strict=True))
        for policy, row in rows.items():
            of_policy = [one for (ran, _), one in runs.items() if ran == policy]
            p90 = fmean(one.ttft_s.p90 or 0.0 for one in of_policy)
            row.append(f"{p90:.2f} s, {fmean(one.hit_ratio for one in of_policy):.2f}")
    return ["TTFT p90, hit ratio", *names], list(rows.values())


def mooncake(folder: Path) -> tuple[Row, list[Row]]:
    scenario = trace_scenarios(folder)["mooncake"]
    names = ("least_inflight", *(name for name in ROUTINGS if name != "longest_match"))
    rows = []
    least = None
    runs = figures_of(scenario, [(f"fifo/{name}", 11) for name in names])
    for name, one in zip(names, runs, strict=True):
        mean = one.ttft_s.mean or 0.0
        least = mean if least is None else least
        rows.append(
            [
                name,
                f"{one.hit_ratio:.3f}",
                f"{mean:.2f}",
                f"{mean / least:.2f}",
                figure_text(one.ttft_s.p50, 2),
                figure_text(one.ttft_s.p99, 1),
            ]
        )
    return ["routing", "block hit", "mean TTFT s", "of least load", "p50", "p99"], rows[1:]


def groups() -> tuple[Row, list[Row]]:
    rows = []
    for name in ("groups", "groups_tight", "groups_saturated"):
        for policy in (
            "direct",
            "fifo/bounded/now",
            "fifo/longest_match/now",
            "start_time_fair/least_inflight/strict",
            f"{FAIR}/strict",
            FAIR,
        ):
            one = figures(SCENARIOS[name], policy)
            rows.append(
                [
                    name,
                    policy,
                    figure_text(one.throughput_tps),
                    f"{one.hit_ratio:.3f}",
                    f"{_difference(one):.0f}",
                    figure_text(one.ttft_s.p90, 2),
                ]
            )
    return ["scenario", "policy", "tok/s", "hit", "avg diff", "TTFT p90 s"], rows


def fairness() -> tuple[Row, list[Row]]:
    rows = []
    for policy in ("direct", "fifo/bounded", FAIR):
        shares = {
            name: _shares(figures(SCENARIOS[name], policy))
            for name in ("return_from_idle", "classes", "long_contexts")
        }
        placement = run(SCENARIOS["placement"], policy)
        gap_s = max(longest_gap_s(placement, tenant, 400.0) for tenant in "ab")
        wait_s = longest_wait_s(run(SCENARIOS["big_call"], policy), "light")
        chats = _chat_ttft_p95(policy, "long_contexts") / _chat_ttft_p95(policy, "chats_alone")
        short = figures(SCENARIOS["short_calls"], policy).throughput_tps
        rows.append(
            [
                policy,
                shares["return_from_idle"],
                shares["classes"],
                shares["long_contexts"],
                f"{chats:.2f}",
                f"{gap_s:.1f}",
                f"{wait_s:.1f}",
                f"{short:,.0f}",
            ]
        )
    header = [
        "policy",
        "idle: shares of a, b, c",
        "classes: shares",
        "long: shares",
        "long: chat TTFT p95 / alone",
        "placement: longest gap s",
        "big call: wait s",
        "short calls: tok/s",
    ]
    return header, rows


def _difference(one: Summary) -> float:
    return one.difference.average if one.difference else 0.0


def _shares(one: Summary) -> str:
    total = sum(one.service.values())
    return " ".join(f"{one.service[tenant] / total:.3f}" for tenant in sorted(one.service))


def _service_between(outcome: Run, from_s: float, to_s: float) -> dict[str, float]:
    return service_between(served_calls(outcome.outcomes), from_s, to_s)


def _chat_ttft_p95(policy: str, name: str) -> float:
    scenario = SCENARIOS[name]
    outcome = run(scenario, policy)
    found = quantiles(
        one.ttft_s(outcome.ended_s)
        for one in outcome.outcomes
        if one.call.tenant.startswith("chat") and one.call.at_s >= scenario.warm_up_s
    )
    return found.p95 or 0.0
