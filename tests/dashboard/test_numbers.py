from __future__ import annotations

import pytest

from dashboard import numbers


def plain(text: str) -> str:
    return text.replace(numbers.GAP, " ")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "–"),
        (0.0, "0 ms"),
        (0.0041, "4.1 ms"),
        (0.4123, "412 ms"),
        (0.9999, "1.00 s"),
        (1.254, "1.25 s"),
        (12.4, "12 s"),
        (300, "5 min"),
        (7200, "2 h"),
        (5 * 86_400, "5 d"),
    ],
)
def test_duration(seconds: float | None, words: str) -> None:
    assert plain(numbers.duration(seconds)) == words


@pytest.mark.parametrize(
    ("value", "words"), [(None, "–"), (0, "0"), (5840, "5,840"), (44_100_000, "44.1 M")]
)
def test_count(value: float | None, words: str) -> None:
    assert plain(numbers.count(value)) == words


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(None, "–"), (0.0, "0 %"), (0.031, "3.1 %"), (0.744, "74 %"), (1.0, "100 %")],
)
def test_percent(ratio: float | None, words: str) -> None:
    assert plain(numbers.percent(ratio)) == words


def test_pair_says_the_unit_once() -> None:
    assert plain(numbers.pair(0.181, 0.387)) == "181 / 387 ms"
    assert plain(numbers.pair(0.951, 2.16)) == "951 ms / 2.16 s"
