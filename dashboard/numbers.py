"""How numbers are written on pages: with units, rounded to what matters, a word where none exists.

Thin no-break spaces keep a number and its unit together.
"""

from __future__ import annotations

NONE = "–"
GAP = "\N{NO-BREAK SPACE}"
_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"))


def duration(seconds: float | None) -> str:
    """412 ms, 1.25 s, 12 s, 3 min, 2 h, 5 d."""
    if seconds is None:
        return NONE
    if seconds < 0.9995:
        digits = 1 if 0 < seconds < 0.0095 else 0
        return f"{seconds * 1e3:.{digits}f}{GAP}ms"
    for limit_s, unit_s, unit, digits in (
        (9.995, 1, "s", 2), (119.5, 1, "s", 0), (7170, 60, "min", 0), (172_000, 3600, "h", 0)
    ):  # fmt: skip
        if seconds < limit_s:
            return f"{seconds / unit_s:.{digits}f}{GAP}{unit}"
    return f"{seconds / 86_400:.0f}{GAP}d"


def pair(first_s: float | None, second_s: float | None) -> str:
    """181 / 387 ms: the unit once where both have the same."""
    first, second = duration(first_s), duration(second_s)
    number, _, unit = first.partition(GAP)
    return f"{number} / {second}" if second.endswith(f"{GAP}{unit}") else f"{first} / {second}"


def count(value: float | None) -> str:
    """5,840 up to a million, then 44.1 M."""
    if value is None:
        return NONE
    for size, letter in _STEPS:
        if abs(value) >= size:
            return f"{value / size:,.1f}{GAP}{letter}"
    return f"{value:,.0f}"


def credits(microcredits: int) -> str:
    """12.40; below a hundredth 0.0031."""
    value = microcredits / 1e6
    return f"{value:,.4f}" if 0 < abs(value) < 0.01 else f"{value:,.2f}"


def percent(ratio: float | None) -> str:
    """74 %, 3.1 % below ten."""
    if ratio is None:
        return NONE
    digits = 1 if 0 < ratio < 0.0995 else 0
    return f"{ratio * 100:.{digits}f}{GAP}%"


def plain(value: float) -> str:
    """A weight as it was typed: 2, 0.5."""
    return f"{value:.10g}"


def many(number: int, noun: str, plural: str = "") -> str:
    """1 call, 2 calls, 1,204 calls."""
    return f"{count(number)} {noun if number == 1 else plural or noun + 's'}"


def listed(words: list[str]) -> str:
    """a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
