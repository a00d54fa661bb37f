"""What is left of goodput when more is asked than can be done?

    python -m benchmarks.overload [seconds]

Offered load of 1, 2 and 5 times the capacity (mixed and interactive only), the tail after it, and a
burst of 10 times for 10 s with callers that come back when told. In virtual time; see
``overload_model`` for the load. Goodput is relative to the 1x run.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.overload_model import (
    CAPACITY,
    INTERACTIVE,
    ONLY_INTERACTIVE,
    STANDARD,
    OneCall,
    Outcome,
    OverloadModel,
)
from gateway.core.reasons import Reason

SEEDS = (11, 12, 13, 14, 15)


def loaded(times: float, seconds: float, **options: Any) -> Outcome:
    return OverloadModel(lambda now_s: times * CAPACITY, **options).run_until(seconds)


def success(calls: list[OneCall]) -> float:
    ended = [call for call in calls if call.ended_s is not None or call.refused is not None]
    return sum(call.ended_s is not None for call in ended) / max(1, len(ended))


def line(name: str, run: Outcome, base: float, seconds: float) -> str:
    good = run.good_per_s(5.0, seconds)
    return (
        f"{name:22} goodput {good:5.1f}/s {good / base:5.0%}  "
        f"interactive success {success(run.of(INTERACTIVE, 5.0)):6.2%} "
        f"TTFT p50 {run.ttft_s(INTERACTIVE, 0.5, 5.0):5.2f} p99 "
        f"{run.ttft_s(INTERACTIVE, 0.99, 5.0):5.2f} s  standard p99 "
        f"{run.ttft_s(STANDARD, 0.99, 5.0):5.2f} s  shed {run.refused(Reason.SHED):5} "
        f"(interactive {run.refused(Reason.SHED, INTERACTIVE)}, above batch minimum "
        f"{sum(number > 0 for number in run.batch_when_shed)}) "
        f"timeouts {run.refused(Reason.QUEUE_TIMEOUT)} preempted {run.preempted}"
    )


def ttft_ratio(seconds: float) -> float:
    """99th percentile over all seeds together."""
    ones = [loaded(1.0, seconds, seed=seed) for seed in SEEDS]
    twos = [loaded(2.0, seconds, seed=seed) for seed in SEEDS]
    once, twice = (Outcome([c for run in runs for c in run.calls]) for runs in (ones, twos))
    return twice.ttft_s(INTERACTIVE, 0.99, 5.0) / once.ttft_s(INTERACTIVE, 0.99, 5.0)


def burst(seconds: float = 120.0, **options: Any) -> Outcome:
    def rate(now_s: float) -> float:
        return CAPACITY * (10.0 if 10.0 <= now_s < 20.0 else 0.8)

    return OverloadModel(rate, returning=True, **options).run_until(seconds)


def first_returns(run: Outcome) -> tuple[int, int]:
    """Admitted, and all."""
    returned = [call for call in run.calls if call.returns == 1]
    return sum(call.refused is None for call in returned), len(returned)


def peak_of_returns(run: Outcome, window_s: float = 5.0) -> float:
    """Most returning calls in any window, of the capacity."""
    windows: dict[int, int] = {}
    for call in run.calls:
        if call.returns:
            windows[int(call.arrived_s // window_s)] = (
                windows.get(int(call.arrived_s // window_s), 0) + 1
            )
    return max(windows.values(), default=0) / window_s / CAPACITY


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    one = loaded(1.0, seconds)
    base = one.good_per_s(5.0, seconds)
    print(line("1x mixed", one, base, seconds))
    for times in (2.0, 5.0):
        print(line(f"{times:.0f}x mixed", loaded(times, seconds), base, seconds))
    only = loaded(5.0, seconds, mix=ONLY_INTERACTIVE)
    print(line("5x interactive only", only, base, seconds))
    bare = loaded(5.0, seconds, shed_wait_ratio=0.0)
    print(line("5x without shedding", bare, base, seconds))
    print(f"TTFT p99 of interactive, 2x / 1x, seeds {SEEDS}: {ttft_ratio(seconds):.2f}")
    run = burst()
    admitted, returned = first_returns(run)
    print(
        f"burst 10x for 10 s: {admitted} of {returned} first returns admitted "
        f"({admitted / max(1, returned):.1%}), most returns in 5 s "
        f"{peak_of_returns(run):.2f} x capacity, completed "
        f"{sum(call.ended_s is not None for call in run.calls) / (120 * CAPACITY):.0%} of capacity"
    )


if __name__ == "__main__":
    main()
