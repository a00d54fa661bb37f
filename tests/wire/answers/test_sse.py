import random
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.errors import UpstreamError
from gateway.core.reasons import Reason
from gateway.wire.answers import sse
from gateway.wire.answers.sse import SseSplitter
from gateway.wire.dialect import Frame
from tests.wire.chat.streams import WHOLE, event, frames

ENDS = pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
RICH = b"".join(
    (
        b": ping\n\n",
        'data: {"text":"Grüße 世界 🌍"}\n\n'.encode(),
        b"event: note\ndata: one\ndata:two\ndata\nid: 7\n\n",
        b"\n\n",
        b"retry: 10\n\n",
        b"data: [DONE]\n\n",
    )
)
PIECES = (
    b"data: x", b"data:", b"data", b": c", b":", b"event: e", b"\n", b"\r", b"\r\n", b"\n\n",
    b"\r\n\r\n", b"\r\r", b"\n\r", b" ", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", "é".encode(),
    b'{"a":1}', b"[DONE]", b"id: 1", b"{", b"<html>",
)  # fmt: skip


def sliced(raw: bytes, cuts: list[int]) -> list[Frame]:
    splitter = SseSplitter()
    edges = [0, *sorted(cuts), len(raw)]
    found = [frame for start, end in pairwise(edges) for frame in splitter.feed(raw[start:end])]
    return found + splitter.finish()


def feed_all(
    splitter: SseSplitter,
    reads: list[bytes],
    taken: list[bytes],
    found: list[Frame] | None = None,
) -> None:
    """Records what was taken and found before it raises."""
    for chunk in reads:
        taken.append(chunk)
        frames_of_chunk = splitter.feed(chunk)
        if found is not None:
            found.extend(frames_of_chunk)


@ENDS
@pytest.mark.parametrize("source", [WHOLE, RICH, b"\xef\xbb\xbf" + RICH, RICH[:-2], RICH[:-1]])
def test_every_cut_gives_the_same_frames_and_bytes(source: bytes, end: bytes) -> None:
    """G9: also inside a UTF-8 character and between CR and LF."""
    raw = source.replace(b"\n", end)
    whole = frames(raw)
    assert b"".join(frame.raw for frame in whole) == raw
    for cut in range(len(raw) + 1):
        assert sliced(raw, [cut]) == whole
    assert sliced(raw, list(range(len(raw)))) == whole


@ENDS
def test_line_ends_do_not_change_the_meaning(end: bytes) -> None:
    """G9"""
    meant = [(f.data, f.event, f.is_comment) for f in frames(RICH.replace(b"\n", end))]
    assert meant == [
        (None, None, True),
        ('{"text":"Grüße 世界 🌍"}'.encode(), None, False),
        (b"one\ntwo\n", "note", False),
        (None, None, False),
        (b"[DONE]", None, False),
    ]


@ENDS
def test_an_event_is_delivered_as_soon_as_its_last_byte_is_there(end: bytes) -> None:
    splitter = SseSplitter()
    raw = b"data: x" + end + end
    assert [f.data for f in splitter.feed(raw)] == [b"x"]
    assert [f.data for f in splitter.feed(raw + raw)] == [b"x", b"x"]


def test_last_event_needs_no_blank_line() -> None:
    """G9"""
    assert [f.data for f in frames(b"data: a\n\ndata: b")] == [b"a", b"b"]
    assert [f.data for f in frames(b"data: a\n\ndata: b\r")] == [b"a", b"b"]


def test_byte_order_mark_is_skipped_at_the_start_only() -> None:
    mark = b"\xef\xbb\xbf"
    first, second = frames(mark + b"data: a\n\n" + mark + b"data: b\n\n")
    assert (first.data, second.data) == (b"a", None)
    assert first.raw.startswith(mark)


def test_one_space_after_the_colon_is_not_data() -> None:
    assert [f.data for f in frames(b"data:x\n\ndata:  x\n\ndata:\n\n")] == [b"x", b" x", b""]


@pytest.mark.parametrize("size", [1, 1000, 65_536])
def test_endless_line_is_cut_at_the_bound(size: int) -> None:
    """Row 45: the bound, and no other replica is tried for it."""
    splitter = SseSplitter(max_frame_bytes=10_000)
    taken: list[bytes] = []
    with pytest.raises(UpstreamError) as caught:
        feed_all(splitter, [b"x" * size] * 200_000, taken)
    assert len(b"".join(taken)) <= 10_000 + size
    assert caught.value.reason is Reason.UPSTREAM_ERROR
    assert not caught.value.retryable


@pytest.mark.parametrize("step", [1, 7, 64, 5000])
def test_frames_before_an_oversized_one_are_still_delivered(step: int) -> None:
    splitter = SseSplitter(max_frame_bytes=100)
    raw = event("a") + event("b") + event("x" * 200) + event("c")
    found: list[Frame] = []
    reads = [raw[start : start + step] for start in range(0, len(raw), step)]
    with pytest.raises(UpstreamError):
        feed_all(splitter, [*reads, b""], [], found)
    assert [f.data for f in found] == [b"a", b"b"]


def test_many_lines_in_one_frame_are_bounded_too() -> None:
    """Row 45"""
    splitter = SseSplitter(max_frame_bytes=1000)
    with pytest.raises(UpstreamError):
        feed_all(splitter, [b"data: 0123456789\n"] * 100, [])


def test_twenty_thousand_garbage_streams_are_read_alike_for_every_slicing() -> None:
    """G9, row 44: spec-legal and illegal pieces in any order, cut anywhere."""
    rng = random.Random(20_000)
    for _ in range(20_000):
        raw = b"".join(rng.choices(PIECES, k=rng.randint(1, 14)))
        whole = frames(raw)
        assert b"".join(f.raw for f in whole) == raw
        cuts = [rng.randint(0, len(raw)) for _ in range(rng.randint(1, 6))]
        assert sliced(raw, cuts) == whole, (raw, cuts)


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=8))
def test_any_bytes_are_read_alike_for_every_slicing(raw: bytes, cuts: list[int]) -> None:
    """G9"""
    assert sliced(raw, [cut for cut in cuts if cut <= len(raw)]) == frames(raw)


@pytest.mark.parametrize("raw", [event("x" * 600_000), b"data: x\n" * 75_000 + b"\n"])
def test_slow_drip_of_a_large_event_costs_linear_time(raw: bytes) -> None:
    started = time.process_time()
    assert len(sliced(raw, list(range(0, len(raw), 8)))) == 1
    assert time.process_time() - started < 3


def test_the_short_way_reads_what_the_long_way_reads() -> None:
    """Frames of one data line, with or without a name, are read without a loop."""
    rng = random.Random(3)
    parts = [b"event: ", b"data: ", b"data:", b"event:", b"\n", b"\n\n", b"\r", b"\r\n"]
    parts += [b" ", b"x", b'{"a":1}', b": c\n", b"\xff", b"id: 4\n", b"event: x\ndata: y"]
    taken = 0
    for _ in range(20_000):
        raw = b"".join(rng.choices(parts, k=rng.randint(1, 6))) + b"\n\n"
        short = sse._single(raw)
        assert short in (None, sse._parsed(raw, raw)), raw
        taken += short is not None
    assert taken > 200
