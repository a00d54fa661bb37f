"""Which routing policy does what in which scenario? All policies, all cells, full size, simulated.

First-token time p90, prompt tokens found in a cache, and the busiest replica's calls by the mean.
Scenarios: 150 prefixes near the knee (uniform), the same by Zipf, one hot prefix, conversations,
conversations with two of eight replicas at half speed, 64 tenants with a prompt each of which one
sends eight times as much (groups). With a folder of traces: Mooncake's conversations too.

    python -m benchmarks.routing_matrix [folder of traces]
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from statistics import fmean, quantiles

from gateway.core.routing.policies import ROUTING_POLICIES
from gateway.simulation.policy import parse_policy
from gateway.simulation.scenario import Scenario, simulate
from gateway.simulation.simulator import Run
from gateway.simulation.workloads.published import MOONCAKE_FILE, mooncake
from gateway.simulation.workloads.scenarios import SCENARIOS

CELLS = ("uniform", "zipf", "hot", "multi_turn", "half_speed", "groups")
SEED = 11


def scenarios(folder: Path | None) -> list[Scenario]:
    found = [SCENARIOS[name] for name in CELLS]
    return found if folder is None else [*found, mooncake(folder / MOONCAKE_FILE)]


def cell(scenario: Scenario, run: Run) -> str:
    counted = [each for each in run.outcomes if each.call.at_s >= scenario.warm_up_s]
    ttft_s = [each.ttft_s(run.ended_s) for each in counted]
    begun = [each for each in counted if each.first_token_s is not None]
    prompt = sum(each.call.input_tokens for each in begun)
    hit = sum(each.cached_tokens for each in begun) / max(1, prompt)
    placed = Counter(each.replica for each in counted if each.replica)
    uneven = max(placed.values()) * len(scenario.engines) / placed.total()
    p90_s = quantiles(ttft_s, n=10)[-1]
    return f"p90 {p90_s:7.2f} s  mean {fmean(ttft_s):7.2f} s  hit {hit:.2f}  max/mean {uneven:.2f}"


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    for scenario in scenarios(folder):
        print(f"{scenario.name}: {scenario.about}")
        for routing in ROUTING_POLICIES:
            run = simulate(scenario, parse_policy(f"start_time_fair/{routing}"), SEED)
            print(f"  {routing:<15} {cell(scenario, run)}", flush=True)


if __name__ == "__main__":
    main()
