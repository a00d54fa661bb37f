"""Workloads: as many calls, as long and as alike as their description says."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from gateway.core.priority import PriorityClass
from gateway.simulation.call import Outcome, SimulatedCall
from gateway.simulation.clients.backlog import Backlog, Flows, Ticking
from gateway.simulation.clients.mix import Mix, mix_calls
from gateway.simulation.workloads.osdi import SUITES, jittered, suite_calls
from gateway.simulation.workloads.prefixes import (
    GroupLoad,
    PrefixLoad,
    chained,
    group_calls,
    prefix_calls,
)
from gateway.simulation.workloads.sessions import SessionLoad, Sessions


def answered(call: SimulatedCall, at_s: float) -> Outcome:
    return Outcome(call, first_token_s=at_s, ended_s=at_s, produced=call.output_tokens)


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("overload", 1_620),
        ("overload-multi", 1_512),
        ("overload-weighted", 1_440),
        ("proportional", 1_350),
        ("poisson_short_long", 5_700),
        ("dist_shift", 1_889),
        ("on_off_overload", 2_400),
    ],
)
def test_suites_have_as_many_calls_as_the_published_ones(name: str, calls: int) -> None:
    made = suite_calls(SUITES[name], seed=1)
    assert len(made) == pytest.approx(calls, rel=0.01)
    assert all(one.at_s <= other.at_s for one, other in pairwise(made))


def test_jitter_moves_every_call_by_at_most_a_second() -> None:
    made = suite_calls(SUITES["overload"], seed=1)
    before = {call.call_id: call.at_s for call in made}
    moved = [abs(call.at_s - before[call.call_id]) for call in jittered(made, seed=2)]
    assert 0.9 < max(moved) <= 1.0


def test_equal_hashes_mean_equal_text_from_the_start() -> None:
    one, other = chained([(1, 300), (2, 200)], 100), chained([(1, 300), (3, 200)], 100)
    assert len(one) == 5
    assert one[:3] == other[:3]
    assert not set(one[3:]) & set(other[3:])
    assert not set(chained([(9, 100), (1, 300)], 100)) & set(one)


def test_uniform_prefixes_are_equally_frequent_and_zipf_is_not() -> None:
    def first_blocks(skew: float) -> Counter[int]:
        load = PrefixLoad(50.0, 10, 600, 100, 10, skew=skew)
        return Counter(call.block_hashes[0] for call in prefix_calls(load, 1, 200.0))

    even, skewed = first_blocks(0.0), first_blocks(1.1)
    assert max(even.values()) < 1.3 * min(even.values())
    assert max(skewed.values()) > 5 * min(skewed.values())


def test_poisson_arrivals_have_the_asked_rate() -> None:
    load = PrefixLoad(15.0, 150, 6_000, 1_200, 1_000)
    assert len(list(prefix_calls(load, 3, 400.0))) == pytest.approx(6_000, rel=0.05)


def test_one_group_sends_eight_times_as_much_as_each_other() -> None:
    tenants = Counter(call.tenant for call in group_calls(GroupLoad(100.0), 1, 200.0))
    others = [count for tenant, count in tenants.items() if tenant != "group-0"]
    assert len(tenants) == 64
    assert tenants["group-0"] / (sum(others) / len(others)) == pytest.approx(8.0, rel=0.1)


def test_every_turn_begins_with_all_that_was_said_before() -> None:
    sessions = Sessions(SessionLoad(think_s=2.0), seed=1, seconds=1e6)
    turn = next(sessions.first())
    prompts = [turn.input_tokens]
    for _ in range(7):
        (following,) = sessions.after(answered(turn, turn.at_s + 5.0), turn.at_s + 5.0)
        said = (turn.input_tokens + turn.output_tokens) // 100
        assert following.block_hashes[:said] == turn.block_hashes
        assert following.at_s >= turn.at_s + 5.0
        assert following.conversation == turn.conversation
        turn = following
        prompts.append(turn.input_tokens)
    assert prompts == [2_400 + 700 * number for number in range(8)]
    assert sessions.after(answered(turn, 1e3), 1e3) == ()


def test_sessions_share_the_system_prompt_only() -> None:
    calls = Sessions(SessionLoad(), seed=1, seconds=60.0).first()
    one, other = next(calls), next(calls)
    assert one.block_hashes[:20] == other.block_hashes[:20]
    assert one.block_hashes[20] != other.block_hashes[20]


def test_ticking_tenants_send_at_even_distances_and_backlogged_ones_on_an_answer() -> None:
    flows = Flows([Backlog("a", 2, 10, 5), Ticking("b", 0.5, 10, 5)], seed=1, seconds=10.0)
    first = list(flows.first())
    assert [call.at_s for call in first if call.tenant == "b"] == [0.0, 2.0, 4.0, 6.0, 8.0]
    (a_call, *_) = (call for call in first if call.tenant == "a")
    assert [call.at_s for call in flows.after(answered(a_call, 3.0), 3.0)] == [3.0]
    (b_call, *_) = (call for call in first if call.tenant == "b")
    assert flows.after(answered(b_call, 3.0), 3.0) == ()


def test_a_mix_has_the_asked_classes_and_the_asked_rate_in_each_part() -> None:
    calls = list(mix_calls(Mix(((0.0, 50.0), (100.0, 200.0))), seed=1, seconds=200.0))
    early = sum(call.at_s < 100.0 for call in calls)
    assert early == pytest.approx(5_000, rel=0.05)
    assert len(calls) - early == pytest.approx(20_000, rel=0.05)
    interactive = sum(call.klass is PriorityClass.INTERACTIVE for call in calls)
    assert interactive / len(calls) == pytest.approx(0.4, abs=0.02)
    assert all(250 <= call.input_tokens <= 750 for call in calls)
