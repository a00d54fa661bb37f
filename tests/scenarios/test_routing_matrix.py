"""The routing matrix, small: each cell shows what the naive rule does there.

Shorter runs and one seed; the full table is printed by ``python -m benchmarks.routing_matrix``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from statistics import quantiles

from gateway.simulation.policy import parse_policy
from gateway.simulation.scenario import simulate
from gateway.simulation.workloads.scenarios import SCENARIOS

SECONDS = {"uniform": 120.0, "hot": 60.0, "multi_turn": 160.0, "half_speed": 160.0}
WARM_UP_S = {"uniform": 60.0, "hot": 20.0, "multi_turn": 80.0, "half_speed": 80.0}


@dataclass(frozen=True)
class Figures:
    ttft_p90_s: float
    hit_ratio: float


@cache
def figures(scenario: str, routing: str) -> Figures:
    seconds = SECONDS[scenario]
    run = simulate(
        replace(SCENARIOS[scenario], warm_up_s=WARM_UP_S[scenario]),
        parse_policy(f"start_time_fair/{routing}"),
        11,
        seconds=seconds,
    )
    counted = [each for each in run.outcomes if each.call.at_s >= WARM_UP_S[scenario]]
    prompt = sum(each.call.input_tokens for each in counted if each.first_token_s is not None)
    cached = sum(each.cached_tokens for each in counted)
    ttft_s = [each.ttft_s(run.ended_s) for each in counted]
    return Figures(quantiles(ttft_s, n=10)[-1], cached / prompt)


def test_near_the_knee_bounded_waits_for_nothing_where_round_robin_queues() -> None:
    assert figures("uniform", "bounded").ttft_p90_s <= 1.0
    assert figures("uniform", "round_robin").ttft_p90_s >= 10.0


def test_one_hot_prefix_is_no_worse_than_spreading_it_blindly() -> None:
    blind = figures("hot", "round_robin").ttft_p90_s
    assert figures("hot", "bounded").ttft_p90_s <= 1.5 * blind


def test_turns_of_a_conversation_find_their_cache() -> None:
    assert figures("multi_turn", "bounded").hit_ratio >= 0.85
    assert figures("multi_turn", "round_robin").hit_ratio < 0.6


def test_two_replicas_at_half_speed_delay_nobody() -> None:
    assert figures("half_speed", "bounded").ttft_p90_s <= 0.5
