"""Schedulers inside the engine."""

from __future__ import annotations

import pytest

from gateway.simulation.engine import EngineRequest
from gateway.simulation.engines.admission import SCHEDULERS, Scheduler


def request(client: str, number: int = 0, prompt: int = 10, output: int = 5) -> EngineRequest:
    return EngineRequest(f"{client}{number}", prompt, output, client=client)


def order(scheduler: Scheduler) -> list[str]:
    found = []
    while (head := scheduler.head()) is not None:
        scheduler.admit(head)
        found.append(head.client)
    return found


def filled(name: str, weights: dict[str, float] | None = None) -> Scheduler:
    scheduler = SCHEDULERS[name](weights or {})
    for client in ("a", "b"):
        for number in range(3):
            scheduler.push(request(client, number))
    return scheduler


@pytest.mark.parametrize("name", sorted(SCHEDULERS))
def test_every_request_is_admitted_once_and_len_counts_those_that_wait(name: str) -> None:
    scheduler = filled(name)
    scheduler.discard("a1")
    assert len(scheduler) == 5
    assert sorted(order(scheduler)) == ["a", "a", "b", "b", "b"]
    assert len(scheduler) == 0


def test_first_come_keeps_the_order_of_arrival() -> None:
    assert order(filled("fcfs")) == ["a", "a", "a", "b", "b", "b"]


@pytest.mark.parametrize("name", ["lcf", "vtc", "oracle"])
def test_counters_alternate_between_equal_clients(name: str) -> None:
    assert order(filled(name)) == ["a", "b", "a", "b", "a", "b"]


def test_weights_divide_what_is_charged() -> None:
    assert order(filled("vtc", {"a": 2.0})) == ["a", "b", "a", "a", "b", "b"]


def test_tokens_that_are_decoded_are_charged_to_their_client() -> None:
    scheduler = filled("vtc")
    scheduler.decoding({"a": 10})
    assert order(scheduler) == ["b", "b", "a", "b", "a", "a"]


def newcomer_waits(name: str) -> bool:
    """a and b were served long; c comes, and then another call of a."""
    scheduler = filled(name)
    scheduler.decoding({"a": 100, "b": 100})
    for number in range(3):
        scheduler.push(request("c", number, prompt=40))
    return order(scheduler)[:3] != ["c", "c", "c"]


def test_the_lift_gives_no_credit_for_absence() -> None:
    assert newcomer_waits("vtc")


def test_least_counter_first_lets_a_newcomer_catch_up() -> None:
    assert not newcomer_waits("lcf")


def test_oracle_charges_the_whole_answer_at_once() -> None:
    scheduler = SCHEDULERS["oracle"]({})
    scheduler.push(request("a", 0, output=100))
    scheduler.push(request("a", 1))
    for number in range(3):
        scheduler.push(request("b", number))
    assert order(scheduler) == ["a", "b", "b", "b", "a"]
