from __future__ import annotations

from gateway.stores.breaker import Breaker, Trust
from gateway.stores.settlements import Settlement, Settlements


def test_five_failures_within_a_second_open_it_once() -> None:
    """Row 25."""
    breaker = Breaker()
    assert [breaker.failed(number * 0.2) for number in range(6)] == [False] * 4 + [True, False]
    assert breaker.trust is Trust.LOST
    assert breaker.probe_in_s == 1.0


def test_five_failures_over_a_longer_time_only_raise_suspicion() -> None:
    breaker = Breaker()
    assert not any(breaker.failed(number * 0.3) for number in range(20))
    assert breaker.trust is Trust.SUSPECT


def test_closing_forgets_old_failures() -> None:
    breaker = Breaker()
    for number in range(5):
        breaker.failed(number * 0.1)
    breaker.close()
    assert not breaker.failed(0.6)
    assert breaker.trust is Trust.SUSPECT


def test_waiting_settlements_are_bounded_and_losses_counted() -> None:
    waiting = Settlements(capacity=10)
    for number in range(25):
        waiting.add(Settlement("acme", f"call-{number}", {}))
    assert len(waiting) == 10
    assert waiting.dropped == 15


def test_settlement_that_was_not_sent_waits_on() -> None:
    waiting = Settlements()
    for number in range(3):
        waiting.add(Settlement("acme", f"call-{number}", {}))
    with waiting.taken(2) as batch:
        assert len(waiting) == 3
        del batch[0]
    assert [s.call_id for s in _all(waiting)] == ["call-2", "call-1"]


def _all(waiting: Settlements) -> list[Settlement]:
    with waiting.taken(len(waiting)) as batch:
        return list(batch)
