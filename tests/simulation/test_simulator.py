"""The event heap: what is told to whom, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from gateway.core.dispatch import bookings, refusals
from gateway.core.dispatch.effects import (
    Effect,
    Grant,
    PoolConfig,
    Preempt,
    Refuse,
    ReplicaTelemetry,
    Usage,
)
from gateway.core.priority import PriorityClass
from gateway.core.reasons import Reason
from gateway.simulation.call import SimulatedCall
from gateway.simulation.clients.backlog import Backlog, Flows
from gateway.simulation.clients.returning import Returning
from gateway.simulation.clients.workload import OpenLoop, Workload
from gateway.simulation.engines.fleet import FleetConfig, FleetEngine
from gateway.simulation.front import DirectFront, DispatcherFront, Front
from gateway.simulation.scenario import open_pool
from gateway.simulation.simulator import HOP_S, Run, Simulator, TelemetryPlan
from gateway.wire import retry_headers

ENGINES = {"r0": FleetConfig(tell_every=1), "r1": FleetConfig(tell_every=1)}
POOL = open_pool(ENGINES, slots=4, kv_tokens=250_000)


def call(name: str, at_s: float = 0.0, output: int = 20) -> SimulatedCall:
    return SimulatedCall(name, f"tenant-{name[0]}", at_s, 100, output)


def calls(count: int) -> list[SimulatedCall]:
    return [call(f"{'ab'[number % 2]}{number}", number * 0.01) for number in range(count)]


class Recorder:
    """A front that keeps what it is told. Grants at once unless ``answers`` says otherwise."""

    def __init__(self, answers: Sequence[Effect] = ()) -> None:
        self.told: list[tuple[float, str]] = []
        self.answers = list(answers)
        self.next_wake: float | None = None
        self._inner = DirectFront(("r0",))

    def submit(
        self, call: SimulatedCall, now_s: float, *, again: bool, preemptions: int = 0
    ) -> list[Effect]:
        suffix = f" again, preempted {preemptions}" if again else ""
        self.told.append((now_s, f"submit {call.call_id}{suffix}"))
        if self.answers:
            return [self.answers.pop(0)]
        return self._inner.submit(call, now_s, again=again)

    def first_event(self, grant_id: int, now_s: float) -> list[Effect]:
        self.told.append((now_s, f"first {grant_id}"))
        return []

    def progress(self, grant_id: int, output_tokens: int, now_s: float) -> list[Effect]:
        self.told.append((now_s, f"progress {grant_id} {output_tokens}"))
        return []

    def release(
        self, grant_id: int, usage: Usage | None, now_s: float, *, refund: bool
    ) -> list[Effect]:
        tokens = "-" if usage is None else usage.output_tokens
        self.told.append((now_s, f"release {grant_id} {tokens}{' refund' if refund else ''}"))
        return []

    def telemetry(self, sample: ReplicaTelemetry, now_s: float) -> list[Effect]:
        self.told.append((now_s, f"sample of {sample.at_s:g}: {sample.running}"))
        return []

    def wake(self, now_s: float) -> list[Effect]:
        self.told.append((now_s, "wake"))
        self.next_wake = None
        return []


def simulate(
    front: Front,
    workload: Workload,
    until_s: float = 1e6,
    *,
    telemetry: TelemetryPlan | None = None,
    hop_s: float = HOP_S,
    progress_every: int = 16,
) -> Run:
    engines = {slug: FleetEngine(config) for slug, config in ENGINES.items()}
    simulator = Simulator(
        engines,
        front,
        workload,
        telemetry=telemetry,
        hop_s=hop_s,
        progress_every=progress_every,
    )
    return simulator.run_until(until_s)


def fair_front(config: PoolConfig = POOL) -> DispatcherFront:
    return DispatcherFront(config, seed=1)


def test_the_gateway_hears_of_the_first_token_of_some_and_of_the_end() -> None:
    front = Recorder()
    simulate(front, OpenLoop([call("a", output=5)]), progress_every=2)
    assert [what for _, what in front.told] == [
        "submit a",
        "first 1",
        "progress 1 2",
        "progress 1 4",
        "release 1 5",
    ]


def test_a_grant_reaches_the_engine_one_hop_later() -> None:
    front = Recorder()
    run = simulate(front, OpenLoop([call("a")]), hop_s=0.5)
    step_s = 0.020 + 0.0001 + 100 / 20_480
    assert run.outcomes[0].first_token_s == pytest.approx(0.5 + step_s)


def test_telemetry_is_as_old_as_planned() -> None:
    front = Recorder()
    simulate(front, OpenLoop([call("a", 0.5, 100)]), telemetry=TelemetryPlan(1.0, 0.25))
    samples = [told for told in front.told if told[1].startswith("sample")]
    assert samples[:4] == [
        (0.25, "sample of 0: 0"),
        (0.25, "sample of 0: 0"),
        (1.25, "sample of 1: 1"),
        (1.25, "sample of 1: 0"),
    ]


def test_the_front_is_woken_when_it_asks_for_it() -> None:
    front = Recorder()
    front.next_wake = 3.0
    simulate(front, OpenLoop([call("a", output=500)]))
    assert (3.0, "wake") in front.told


def test_nothing_happens_any_more_once_every_call_ended() -> None:
    front = Recorder()
    front.next_wake = 1e5
    run = simulate(front, OpenLoop([call("a")]), telemetry=TelemetryPlan(1.0))
    assert run.ended_s == run.outcomes[0].ended_s


def test_preempted_call_asks_again_and_its_client_sees_one_answer() -> None:
    class Preempting(Recorder):
        def progress(self, grant_id: int, output_tokens: int, now_s: float) -> list[Effect]:
            return [Preempt("a", 1)] if grant_id == 1 and output_tokens == 4 else []

    front = Preempting()
    run = simulate(front, OpenLoop([call("a", output=6)]), progress_every=1)
    assert [what for _, what in front.told] == [
        "submit a",
        "first 1",
        "release 1 - refund",
        "submit a again, preempted 1",
        "first 2",
        "release 2 6",
    ]
    assert (run.outcomes[0].completed, run.outcomes[0].preemptions) == (True, 1)


def test_refused_client_returns_not_before_it_was_told_to() -> None:
    front = Recorder([Refuse("a", Reason.SHED, "", 7.0)])
    run = simulate(front, Returning(OpenLoop([call("a")]), seed=1))
    refused, returned = run.outcomes
    assert refused.refused is Reason.SHED
    assert 7.0 <= returned.call.at_s <= 8.4
    assert (returned.call.attempt, returned.call.first_at_s, returned.completed) == (1, 0.0, True)


def test_only_a_stubborn_client_returns_after_more_than_a_minute() -> None:
    """The header says ``x-should-retry: false`` then."""
    for stubborn, attempts in ((False, 1), (True, 2)):
        front = Recorder([Refuse("a", Reason.SHED, "", 61.0)])
        run = simulate(front, Returning(OpenLoop([call("a")]), seed=1, stubborn=stubborn))
        assert len(run.outcomes) == attempts


def test_its_minute_and_its_lateness_are_those_of_the_header() -> None:
    assert bookings.JITTER_RATIO == 1 + retry_headers.JITTER_RATIO
    assert refusals.LONGEST_S == retry_headers.LONGEST_RETRY_S


def test_client_gives_up_after_its_attempts() -> None:
    front = Recorder([Refuse("a" + "+" * number, Reason.SHED, "", 1.0) for number in range(9)])
    run = simulate(front, Returning(OpenLoop([call("a")]), seed=1, attempts=3))
    assert len(run.outcomes) == 3
    assert not any(outcome.completed for outcome in run.outcomes)


@pytest.mark.parametrize("routing", ["least_inflight", "round_robin"])
def test_every_call_ends_once_and_nothing_is_left(routing: str) -> None:
    front = fair_front(replace(POOL, routing=routing))
    run = simulate(front, OpenLoop(calls(100)))
    assert all(outcome.completed for outcome in run.outcomes)
    assert len({outcome.call.call_id for outcome in run.outcomes}) == 100
    view = front.dispatcher.view()
    assert (sum(view.in_flight.values()), sum(view.queued.values())) == (0, 0)
    assert {outcome.replica for outcome in run.outcomes} == {"r0", "r1"}


def test_the_same_seed_gives_the_same_run() -> None:
    def times() -> list[tuple[float | None, str]]:
        run = simulate(fair_front(), OpenLoop(calls(200)))
        return [(outcome.ended_s, outcome.replica) for outcome in run.outcomes]

    assert times() == times()


def test_wait_limits_of_the_pool_refuse_in_virtual_time() -> None:
    config = replace(POOL, wait_limit_s=(0.5, 0.5, 0.5), replicas=POOL.replicas[:1])
    run = simulate(fair_front(config), OpenLoop([call(f"a{n}", output=100) for n in range(9)]))
    late = [outcome for outcome in run.outcomes if outcome.refused is Reason.QUEUE_TIMEOUT]
    assert len(late) == 5
    assert {outcome.refused_s for outcome in late} == {0.5}


def test_closed_loop_keeps_its_threads_busy_and_ends_with_the_run() -> None:
    flows = Flows([Backlog("a", 3, 100, 20)], seed=1, seconds=10.0)
    run = simulate(fair_front(), flows, until_s=10.0)
    assert sum(outcome.open for outcome in run.outcomes) == 3
    assert run.ended_s == 10.0


def test_rpm_refuses_the_call_above_the_limit_of_a_minute() -> None:
    front = DirectFront(("r0",), calls_per_minute=2)
    at_s = (0.0, 1.0, 2.0, 59.0, 60.5, 61.5)
    effects = [front.submit(call(f"a{s}"), s, again=False)[0] for s in at_s]
    kinds = [type(effect) for effect in effects]
    assert kinds == [Grant, Grant, Refuse, Refuse, Grant, Grant]


def test_the_gateway_learns_the_length_of_answers_unless_an_oracle_tells_it() -> None:
    front = fair_front()
    assert front.ticket(call("a"), again=False).output_tokens == 256
    simulate(front, OpenLoop([call("a0", output=20), call("a1", 5.0, 20)]))
    assert front.ticket(call("a2"), again=False).output_tokens < 256
    oracle = DispatcherFront(POOL, seed=1, knows_lengths=True)
    assert oracle.ticket(call("a", output=7), again=False).output_tokens == 7


def test_class_and_conversation_reach_the_scheduler() -> None:
    sent = replace(call("a"), klass=PriorityClass.BATCH, conversation=4, attempt=2)
    ticket = fair_front().ticket(sent, again=True)
    assert (ticket.klass, ticket.conversation, ticket.retry_count, ticket.again) == (
        PriorityClass.BATCH,
        4,
        2,
        True,
    )
