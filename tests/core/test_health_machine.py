"""Down by probes, and back through a trial."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from gateway.core.dispatch.effects import ReplicaHealth
from gateway.core.health.machine import HealthState
from tests.core.factories import config, dispatcher, granted_ids, grants, refusals, ticket
from tests.core.health_machines import down, fail_calls, half_open, machine


class TestDown:
    def test_a_refused_connection_is_checked_at_once_and_again_after_200_ms(self) -> None:
        """R14, row 39: out within a second."""
        made = machine()
        made.connection_failed(7.0)
        assert made.next_probe_s == 7.0
        made.probe_failed(7.0, refused=True)
        assert made.admits
        assert made.next_probe_s == 7.2
        made.probe_failed(7.2, refused=True)
        assert made.health(7.2) == ReplicaHealth("r0", admits=False)

    def test_one_refused_connection_is_forgiven_when_the_probe_passes(self) -> None:
        made = machine()
        for now_s in range(1, 50):
            made.connection_failed(float(now_s))
            made.probe_passed(float(now_s))
        assert made.state is HealthState.SERVING

    def test_two_failed_probes_in_a_row_take_an_idle_replica_out(self) -> None:
        made = machine()
        made.probe_failed(5.0, refused=False)
        assert (made.admits, made.next_probe_s) == (True, 10.0)
        made.probe_failed(10.0, refused=False)
        assert made.state is HealthState.DOWN

    def test_probes_that_were_never_sent_say_nothing(self) -> None:
        made = machine()
        made.probe_failed(5.0, refused=False)
        for now_s in (10.0, 15.0, 20.0):
            made.probe_not_sent(now_s)
            assert (made.admits, made.next_probe_s) == (True, now_s + 5.0)
        made.probe_failed(25.0, refused=False)
        assert made.state is HealthState.DOWN

    def test_a_busy_replica_may_miss_probes_while_streams_progress(self) -> None:
        """R13."""
        made = machine()
        for now_s in range(100):
            made.progress(float(now_s))
            if now_s % 5 == 0:
                made.probe_failed(now_s + 0.5, refused=False)
        assert made.state is HealthState.SERVING

    def test_a_replica_that_was_killed_under_streams_goes_down(self) -> None:
        """R14: its last tokens are no proof of life once it refuses connections."""
        made = machine()
        made.progress(9.9)
        made.connection_failed(10.0)
        made.probe_failed(10.0, refused=True)
        made.probe_failed(10.2, refused=True)
        assert made.state is HealthState.DOWN

    def test_an_unknown_replica_that_refuses_is_down_after_200_ms(self) -> None:
        made = machine(proven=False)
        assert made.next_probe_s == 0.0
        made.probe_failed(0.0, refused=True)
        made.probe_failed(0.2, refused=True)
        assert made.state is HealthState.DOWN

    def test_two_successful_probes_five_seconds_apart_bring_it_back_half_open(self) -> None:
        made = down()
        made.probe_failed(6.2, refused=True)
        assert made.next_probe_s == 11.2
        made.probe_passed(11.2)
        assert not made.admits
        made.probe_passed(16.2)
        assert made.health(16.2) == ReplicaHealth("r0", admits=True, slot_cap=1)

    def test_a_failure_between_starts_the_count_anew(self) -> None:
        made = down()
        made.probe_passed(6.2)
        made.probe_failed(11.2, refused=True)
        made.probe_passed(16.2)
        assert made.state is HealthState.DOWN

    def test_a_flapping_replica_changes_state_rarely(self) -> None:
        """Row 51: one second up, one second down, for 30 s of calls and due probes."""
        made, changes, before = machine(), 0, HealthState.SERVING
        for step in range(300):
            now_s = 1 + step * 0.1
            up = int(now_s) % 2 == 0
            if made.admits and not up:
                made.connection_failed(now_s)
            if made.next_probe_s <= now_s:
                made.probe_passed(now_s) if up else made.probe_failed(now_s, refused=True)
            changes, before = changes + (made.state is not before), made.state
        assert changes <= 6


class TestReturn:
    def test_half_open_runs_one_trial_call(self) -> None:
        pool = dispatcher(config(1, 32))
        pool.apply(half_open().health(12.0), 12.0)
        assert len(grants([e for _ in range(5) for e in pool.submit(ticket(), 12.0)])) == 1

    def test_the_trial_decides(self) -> None:
        """Two failures, of two callers or of the only one, or of calls that succeed elsewhere."""
        back, out, alone, outdone = (half_open() for _ in range(4))
        back.call_succeeded(13.0)
        fail_calls(out, 2, 13.0)
        for _ in range(2):
            alone.call_failed(13.0, "alone")
            outdone.outdone(13.0)
        assert back.state is HealthState.STARTING
        assert {each.state for each in (out, alone, outdone)} == {HealthState.EJECTED}

    def test_one_caller_among_others_does_not_decide_the_trial(self) -> None:
        made = half_open()
        for number in range(50):
            made.call_failed(13.0 + number, "poisoner", others=True)
        assert made.state is HealthState.HALF_OPEN

    def test_slow_start_from_four_slots_one_more_per_success(self) -> None:
        """Row 52."""
        made, caps = half_open(slots=8), []
        for _ in range(5):
            made.call_succeeded(13.0)
            caps.append(made.health(13.0).slot_cap)
        assert caps == [4, 5, 6, 7, None]
        assert made.state is HealthState.SERVING

    def test_a_replica_with_few_slots_is_back_at_once(self) -> None:
        made = half_open(slots=2)
        made.call_succeeded(13.0)
        assert made.state is HealthState.SERVING

    def test_killed_in_slow_start_it_goes_down_again(self) -> None:
        made = half_open()
        made.call_succeeded(13.0)
        made.connection_failed(14.0)
        made.probe_failed(14.0, refused=True)
        made.probe_failed(14.2, refused=True)
        assert made.state is HealthState.DOWN


def test_one_of_three_killed_under_load_costs_each_call_at_most_one_failure() -> None:
    """R14, with the dispatcher: unsent calls move, the replica gets no more."""
    pool, victim = dispatcher(config(3, 4)), machine()
    running = grants([e for _ in range(12) for e in pool.submit(ticket(), 0.0)])
    failed = [grant for grant in running if grant.replica == "r0"]
    victim.connection_failed(1.0)
    victim.probe_failed(1.0, refused=True)
    victim.probe_failed(1.2, refused=True)
    assert refusals(pool.apply(victim.health(1.2), 1.2)) == []
    for grant in failed:
        pool.release(grant.grant_id, None, 1.2, refund=True)
        excluded = frozenset({"r0"})
        pool.submit(ticket(call_id=grant.call_id, excluded=excluded, again=True), 1.2)
    survivors = [grant for grant in running if grant.replica != "r0"]
    moved = [
        call_id
        for grant in survivors[: len(failed)]
        for call_id in granted_ids(pool.release(grant.grant_id, None, 2.0))
    ]
    assert sorted(moved) == sorted(grant.call_id for grant in failed)


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_evidence_keeps_the_rules(seed: int) -> None:
    rng, made, now_s = random.Random(seed), machine(8), 0.0
    events: list[Callable[[float], None]] = [
        made.probe_passed,
        made.connection_failed,
        made.call_failed,
        made.outdone,
        made.call_succeeded,
        made.stalled,
        made.progress,
        made.full,
    ]
    for _ in range(500):
        now_s += rng.choice([0.0, 0.1, 1.0, 20.0])
        if rng.random() < 0.2:
            made.probe_failed(now_s, refused=rng.random() < 0.5)
        else:
            rng.choice(events)(now_s)
        health = made.health(now_s)
        assert health.admits == (made.state not in (HealthState.DOWN, HealthState.EJECTED))
        assert health.slot_cap is None or 0 <= health.slot_cap <= 8
        assert made.next_probe_s <= now_s + 5.0


def test_replica_in_doubt_gets_no_calls_until_its_probe_has_answered() -> None:
    """R14: failing fast, it would look idle."""
    made = machine()
    made.connection_failed(1.0)
    assert (made.health(1.0).admits, made.health(1.0).slot_cap) == (True, 0)
    made.probe_passed(1.1)
    assert made.health(1.1).slot_cap is None


def test_doubt_ends_after_a_second_when_no_probe_answers() -> None:
    made = machine()
    made.connection_failed(1.0)
    assert made.next_wake_s(1.0) == 1.0
    assert made.health(1.99).slot_cap == 0
    assert made.health(2.0).slot_cap is None
