"""Which calls speak against a replica, and what an ejection is; what is no evidence."""

from __future__ import annotations

import pytest

from gateway.core.dispatch.effects import ReplicaHealth
from gateway.core.health.ejection import may_eject
from gateway.core.health.machine import HealthState
from tests.core.health_machines import down, ejected, fail_calls, machine, pool_of, seconds_away


class TestEjected:
    def test_five_failed_calls_in_a_row_eject_it_while_its_probes_pass(self) -> None:
        """G14, R12: it answers its health page and never a token."""
        made = machine()
        for number in range(4):
            made.call_failed(float(number), "alone")
            made.probe_passed(float(number))
        assert made.state is HealthState.SERVING
        made.call_failed(5.0, "alone")
        assert made.health(5.0) == ReplicaHealth("r0", admits=False)

    def test_failures_of_one_caller_are_no_evidence_while_others_use_the_pool(self) -> None:
        """Requests that no server can answer: another caller's one failure adds little to them."""
        made = machine()
        for number in range(50):
            made.call_failed(float(number), "poisoner", others=True)
        made.call_failed(50.0, "another", others=True)
        assert made.admits
        made.call_failed(51.0, "another", others=True)
        assert not made.health(51.0).admits

    def test_a_call_that_succeeds_elsewhere_speaks_against_the_replica_whoever_sent_it(
        self,
    ) -> None:
        made = machine()
        for number in range(5):
            assert made.admits
            made.call_failed(float(number), "busy", others=True)
            made.outdone(number + 0.5)
        assert made.state is HealthState.EJECTED

    def test_a_success_acquits_of_what_succeeded_elsewhere(self) -> None:
        made = machine()
        for number in range(20):
            made.outdone(float(number))
            if number % 4 == 3:
                made.call_succeeded(float(number))
        assert made.state is HealthState.SERVING

    def test_the_only_caller_of_a_pool_is_believed_for_ten_seconds_at_a_time(self) -> None:
        made, now_s = machine(), 0.0
        for _ in range(4):
            for _ in range(5):
                made.call_failed(now_s, "alone")
            assert made.state is HealthState.EJECTED
            assert seconds_away(made, now_s) == 10
            now_s += 10

    def test_a_success_between_starts_the_count_anew(self) -> None:
        made = machine()
        for now_s in range(100):
            fail_calls(made, 4, float(now_s))
            made.call_succeeded(float(now_s))
        assert made.state is HealthState.SERVING

    def test_a_stall_ejects_at_once(self) -> None:
        made = machine()
        made.stalled(30.0)
        assert made.state is HealthState.EJECTED

    def test_the_ejection_doubles_up_to_300_seconds(self) -> None:
        made, now_s, times = machine(), 0.0, []
        for _ in range(8):
            fail_calls(made, 5, now_s)
            times.append(seconds_away(made, now_s))
            now_s += times[-1]
            assert made.state is HealthState.HALF_OPEN
        assert times == [10, 20, 40, 80, 160, 300, 300, 300]

    def test_full_service_forgets_earlier_ejections(self) -> None:
        made = ejected(100.0)
        made.tick(110.0)
        for _ in range(40):
            made.call_succeeded(111.0)
        fail_calls(made, 5, 200.0)
        assert seconds_away(made, 200.0) == 10

    def test_it_goes_down_when_its_probes_fail_too(self) -> None:
        made = ejected()
        made.probe_failed(101.0, refused=True)
        made.probe_failed(106.0, refused=True)
        assert made.state is HealthState.DOWN

    def test_the_pool_may_refuse(self) -> None:
        made = machine(may=False)
        fail_calls(made, 50, 1.0)
        made.stalled(2.0)
        assert made.state is HealthState.SERVING

    @pytest.mark.parametrize(("size", "allowed"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2)])
    def test_never_more_than_half_the_pool_and_never_the_last(
        self, size: int, allowed: int
    ) -> None:
        pool = pool_of(size)
        for made in pool:
            fail_calls(made, 5, 1.0)
        assert sum(not made.admits for made in pool) == allowed

    def test_the_last_that_admits_is_kept_when_others_are_down(self) -> None:
        last, other = machine(), down()
        assert not may_eject(last, [last, other])


class TestNoEvidence:
    def test_twenty_invalid_or_impatient_requests_never_eject(self) -> None:
        """4xx and the caller's own deadline have no method here; what remains is progress and calls
        that end without a verdict. Twenty of them between four real failures change nothing."""
        made = machine()
        fail_calls(made, 4, 1.0)
        for number in range(20):
            made.tick(2.0 + number)
            made.probe_passed(2.0 + number)
        assert made.state is HealthState.SERVING

    def test_full_is_a_pause_of_one_to_two_seconds_and_no_failure(self) -> None:
        made = machine()
        for _ in range(20):
            made.full(5.0, retry_after_s=30.0)
        assert made.health(6.9) == ReplicaHealth("r0", admits=True, slot_cap=0)
        assert made.next_wake_s(6.0) in (5.0, 7.0)
        assert made.health(7.0) == ReplicaHealth("r0", admits=True)
