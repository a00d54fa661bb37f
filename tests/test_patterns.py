"""No regular expression of the product can be made slow by who chooses the text.

Every pattern is found in the source, compiled as there, and set upon texts of 100 kB: long runs,
near misses, and the pattern's own letters over and over.
"""

from __future__ import annotations

import ast
import importlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.source import modules

CHARACTERS = 100_000
MOST_S = 0.010
ATTACKS = (
    "a", "0", " ", "\\", "-a", "1.", "{}", "\r\n", '"', " - at `$", ',"usage":{', "\u202eé", "/a",
)  # fmt: skip
FUNCTIONS = frozenset({"compile", "search", "match", "fullmatch", "findall", "finditer", "split"})
SUBSTITUTING = frozenset({"sub", "subn"})


@dataclass(frozen=True)
class Found:
    module: str
    line: int
    pattern: re.Pattern[str] | re.Pattern[bytes]

    def __str__(self) -> str:
        return f"{self.module}:{self.line}"


def _found() -> Iterator[Found]:
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (wish := _wish(node)) is not None:
                yield Found(name, node.lineno, _compiled(name, *wish))


def _wish(call: ast.Call) -> tuple[ast.expr, ast.expr | None] | None:
    """The expressions of a pattern and of its flags, where the call has one."""
    for keyword in call.keywords:
        if keyword.arg == "pattern":
            return keyword.value, None
    function = call.func
    if not (isinstance(function, ast.Attribute) and ast.unparse(function.value) == "re"):
        return None
    if function.attr not in FUNCTIONS | SUBSTITUTING:
        return None
    place = 1 if function.attr == "compile" else 3 if function.attr in SUBSTITUTING else 2
    return call.args[0], call.args[place] if len(call.args) > place else None


def _compiled(
    module: str, pattern: ast.expr, flags: ast.expr | None
) -> re.Pattern[str] | re.Pattern[bytes]:
    names = vars(importlib.import_module(module))
    text: Any = eval(compile(ast.Expression(pattern), module, "eval"), names)
    how = eval(compile(ast.Expression(flags), module, "eval"), names) if flags else 0
    compiled: re.Pattern[str] | re.Pattern[bytes] = re.compile(text, how)
    return compiled


FOUND = tuple(_found())


def test_the_patterns_of_the_product_are_found() -> None:
    names = {(found.module, found.pattern.pattern) for found in FOUND}
    assert ("tenants.key_format", r"[0-9A-Za-z]{8}") in names
    assert any(module == "gateway.wire.request_fields" for module, _ in names)
    assert len(FOUND) > 25


@pytest.mark.parametrize("found", FOUND, ids=str)
def test_no_text_makes_a_pattern_slow(found: Found) -> None:
    """S34; CPU time, the better of up to five."""
    own = re.sub(r"\\[\[\](){}.*+?$^|]", lambda escaped: escaped[0][1:], _text(found.pattern))
    for piece in (*ATTACKS, own, re.sub(r"[^\w\s\"'`,:;/<>$-]", "", own) or "b"):
        text = (piece * (CHARACTERS // len(piece)))[:-1] + "\0"
        spent_s = _spent_s(found.pattern, text)
        if MOST_S < spent_s < 10 * MOST_S:  # the machine may be busy
            spent_s = min(_spent_s(found.pattern, text) for _ in range(4))
        assert spent_s <= MOST_S, (piece, spent_s)


def _text(pattern: re.Pattern[str] | re.Pattern[bytes]) -> str:
    raw = pattern.pattern
    return raw if isinstance(raw, str) else raw.decode("latin-1")


def _spent_s(pattern: re.Pattern[str] | re.Pattern[bytes], text: str) -> float:
    """Of the slower of ``search`` and ``fullmatch``."""
    slowest = 0.0
    for method in ("search", "fullmatch"):
        attack = text if isinstance(pattern.pattern, str) else text.encode()
        began_s = time.process_time()
        getattr(pattern, method)(attack)
        slowest = max(slowest, time.process_time() - began_s)
    return slowest
