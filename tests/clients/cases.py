"""What the programs in Python have in common. Standard library only: they run where nothing else of
the project is installed.

``@case`` marks a function that takes the facts; an exception is its problem. ``run`` reads the
facts, calls each and prints a line of JSON for it.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

Facts = dict[str, Any]
CASES: list[Callable[[Facts], None]] = []

QUESTION = "Tell me about the sea."
LONG = "the quick brown fox and the lazy dog went to the sea " * 40
PICTURE = "data:image/png;base64,iVBORw0KGgo="
LEAST_WAIT_S, LONGEST_WAIT_S = 0.5, 20.0  # of a limit of one call a second


def case(check: Callable[[Facts], None]) -> Callable[[Facts], None]:
    CASES.append(check)
    return check


@dataclass
class Raised:
    """``with Raised(kind) as caught`` fails when no error of this kind comes."""

    kind: type[BaseException]
    error: Any = None

    def __enter__(self) -> Raised:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        assert kind is not None, f"no {self.kind.__name__} was raised"
        self.error = error
        return isinstance(error, self.kind)


def talk(text: str = QUESTION) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def is_one(value: Any, wanted: Any) -> None:
    assert value == wanted, f"{value!r} is not {wanted!r}"


def waited(call: Callable[[], Any]) -> float:
    began_s = time.monotonic()
    call()
    return time.monotonic() - began_s


def obeyed_retry(call: Callable[[], Any]) -> None:
    """``call`` retries by itself, under a limit of one call a second."""
    took_s = waited(call) + waited(call)
    assert LEAST_WAIT_S <= took_s <= LONGEST_WAIT_S, f"waited {took_s:.2f} s"


def run(package: str) -> None:
    facts = json.load(sys.stdin)
    print(json.dumps({"version": importlib.metadata.version(package)}), flush=True)
    for check in CASES:
        print(json.dumps({"case": title(check), "problem": problem(check, facts)}), flush=True)


def title(check: Callable[[Facts], None]) -> str:
    return check.__name__.replace("_", " ")


def problem(check: Callable[[Facts], None], facts: Facts) -> str:
    """Empty where there is none."""
    try:
        check(facts)
    except Exception as error:
        where = error.__traceback__
        while where is not None and where.tb_next is not None and _is_ours(where.tb_next):
            where = where.tb_next
        line = where.tb_lineno if where is not None else 0
        return f"line {line}: {type(error).__name__}: {error}"[:400]
    return ""


def _is_ours(trace: TracebackType) -> bool:
    return "tests/clients" in trace.tb_frame.f_code.co_filename
