from __future__ import annotations

from pathlib import Path

import pytest

from gateway.active_calls import ActiveCalls, Phase, forget, layout, recover
from gateway.core.errors import Rejected
from gateway.core.reasons import Reason
from tests.gateway.factories import opening


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "active"


def reopened(table: ActiveCalls, path: Path) -> ActiveCalls:
    """As the next process finds it."""
    table.shut()
    return ActiveCalls(path, table.capacity)


def test_what_was_in_flight_is_found_with_what_it_received(path: Path) -> None:
    table = ActiveCalls(path, 4)
    call = table.open(opening(demands=((("org:acme", "tpm", "*", "online", ""), 250.5),)))
    call.dispatched("r1")
    call.enter(Phase.RELAYING)
    call.input_tokens(90, 30)
    call.tokens(17)
    reopened(table, path)
    [orphan], damaged = recover(path)
    assert (orphan.opening, damaged) == (call.opening, 0)
    assert (orphan.phase, orphan.replica) == (Phase.RELAYING, "r1")
    counts = (orphan.received_tokens, orphan.prompt_tokens, orphan.cached_tokens)
    assert counts == (17, 90, 30)


def test_a_new_attempt_forgets_what_the_last_one_received(path: Path) -> None:
    table = ActiveCalls(path, 4)
    call = table.open(opening())
    call.dispatched("r1")
    call.tokens(9)
    call.dispatched("r2")
    reopened(table, path)
    [orphan], _ = recover(path)
    assert (orphan.received_tokens, orphan.replica) == (0, "r2")


def test_a_closed_call_is_no_orphan_and_its_slot_is_used_again(path: Path) -> None:
    table = ActiveCalls(path, 1)
    for number in range(5):
        table.open(opening(f"call-{number}"))
        table.close([f"call-{number}"])
    assert len(table) == 0
    reopened(table, path)
    assert recover(path) == ([], 0)


def test_a_write_after_the_close_does_not_reach_the_next_call(path: Path) -> None:
    table = ActiveCalls(path, 1)
    late = table.open(opening("late"))
    table.close(["late"])
    table.open(opening("next"))
    late.tokens(99)
    late.enter(Phase.RELAYING)
    reopened(table, path)
    [orphan], _ = recover(path)
    assert (orphan.opening.call_id, orphan.received_tokens) == ("next", 0)
    assert orphan.phase is Phase.ADMITTED


def test_a_full_table_refuses_with_gateway_full(path: Path) -> None:
    table = ActiveCalls(path, 2)
    table.open(opening("a"))
    table.open(opening("b"))
    with pytest.raises(Rejected) as refused:
        table.open(opening("c"))
    assert refused.value.reason is Reason.GATEWAY_FULL
    assert refused.value.retry_after_s == 1.0
    table.close(["a"])
    assert table.open(opening("c")).opening.call_id == "c"


def test_calls_that_the_journal_has_are_left_out(path: Path) -> None:
    table = ActiveCalls(path, 4)
    table.open(opening("ended"))
    table.open(opening("running"))
    reopened(table, path)
    orphans, _ = recover(path, known={"ended"})
    assert [orphan.opening.call_id for orphan in orphans] == ["running"]


def test_orphans_stay_until_they_are_forgotten_over_any_number_of_crashes(path: Path) -> None:
    table = ActiveCalls(path, 4)
    table.open(opening("first"))
    table = reopened(table, path)
    table.open(opening("second"))
    reopened(table, path)
    orphans, _ = recover(path)
    assert {orphan.opening.call_id for orphan in orphans} == {"first", "second"}
    forget(path)
    assert recover(path) == ([], 0)


def test_a_damaged_slot_is_counted_and_the_others_are_read(path: Path) -> None:
    table = ActiveCalls(path, 4)
    table.open(opening("good"))
    table.open(opening("bad"))
    table.shut()
    content = bytearray(path.read_bytes())
    content[layout.HEADER_BYTES + layout.SLOT_BYTES + layout.TEXT_AT + 3] ^= 0xFF
    path.write_bytes(content)
    ActiveCalls(path, 4)
    orphans, damaged = recover(path)
    assert ([orphan.opening.call_id for orphan in orphans], damaged) == (["good"], 1)


def test_many_demands_with_long_names_fit_into_a_slot(path: Path) -> None:
    meters = ("tpm", "itpm", "otpm", "rpm", "concurrent", "day", "month", "enqueued")
    demands = tuple(
        (("org:" + "o" * 40, meter, "p" * 40, klass, "2026-11-30"), 123_456.75)
        for meter in meters
        for klass in ("*", "online", "interactive", "standard", "batch")
    )
    table = ActiveCalls(path, 1)
    table.open(opening(model="m" * 100, request_id="r" * 200, demands=demands))
    reopened(table, path)
    [orphan], _ = recover(path)
    assert orphan.opening.demands == demands


def test_a_second_process_on_the_same_table_is_refused_in_words(path: Path) -> None:
    ActiveCalls(path, 1)
    with pytest.raises(OSError, match="another gateway is running on"):
        ActiveCalls(path, 1)


def test_a_file_of_another_layout_yields_nothing(path: Path) -> None:
    path.write_bytes(b"x" * 10_000)
    ActiveCalls(path, 1)
    assert recover(path) == ([], 0)


def test_counts_beyond_the_field_stop_at_its_largest_value(path: Path) -> None:
    table = ActiveCalls(path, 1)
    table.open(opening()).tokens(2**40)
    reopened(table, path)
    [orphan], _ = recover(path)
    assert orphan.received_tokens == layout.MAX_COUNT


def test_prompts_that_wait_are_those_of_calls_that_were_never_dispatched(path: Path) -> None:
    table = ActiveCalls(path, 4)
    waiting, closed, dispatched = [table.open(opening(call_id=f"c{number}")) for number in range(3)]
    dispatched.dispatched("r1")
    table.close(["c1"])
    place = waiting.opening.pool, waiting.opening.klass
    assert table.queued_tokens() == {place: waiting.prompt_tokens}
    assert closed.opening.call_id not in {call.opening.call_id for call in table}
