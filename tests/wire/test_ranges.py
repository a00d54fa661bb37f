"""S30: whatever a body says, what the replica receives is within the ranges of the row.

``TEST_BODY_CASES`` bodies over all dialects: a few known fields each, with values that are right,
wrong by one, or of another kind. The ranges stand here once more, apart from the schema; the ends
of each are tried one by one.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.core.errors import Rejected
from gateway.wire import DIALECTS
from gateway.wire.body import REFUSED_FIELDS
from gateway.wire.dialect import BodyBounds, Rewrite

CASES = int(os.environ.get("TEST_BODY_CASES", "500"))
CAPS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict", "max_tool_calls")
INTEGERS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(CAPS, (1, 2**31 - 1)),
    **{"n": (1, 8), "n_cmpl": (1, 8), "best_of": (1, 8)},
    **{"top_logprobs": (0, 20), "logprobs": (0, 20), "n_probs": (0, 20)},
    **{"min_tokens": (0, 2**31 - 1), "top_k": (-1, 2**31 - 1), "seed": (-(2**63), 2**63 - 1)},
    "dimensions": (1, 65_536),
}
FLOATS: dict[str, tuple[float, float]] = {
    **{"temperature": (0, 2), "top_p": (0, 1), "min_p": (0, 1), "repetition_penalty": (0, 100)},
    **dict.fromkeys(("frequency_penalty", "presence_penalty"), (-2, 2)),
}
LENGTHS = {"stop": 16, "stop_sequences": 64, "logit_bias": 300, "guided_regex": 512, "metadata": 16}
ELSEWHERE = {"max_tool_calls", "max_output_tokens", "dimensions", "stop_sequences"}
EVERY = {*INTEGERS, *FLOATS, *LENGTHS} - ELSEWHERE
KNOWN = {  # what each dialect knows of them; elsewhere they are unknown and pass
    "chat/completions": EVERY,
    "completions": EVERY - {"max_completion_tokens", "top_logprobs"},
    "responses": {"max_output_tokens", "max_tokens", "n_predict", "max_tool_calls"}
    | {"top_logprobs", "metadata", "temperature", "top_p"},
    "messages": {"max_tokens", "temperature", "top_p", "top_k", "stop_sequences"},
    "embeddings": {"dimensions", "metadata"},
}
PROMPTS: dict[str, dict[str, Any]] = {
    "chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "completions": {"prompt": "hi"},
    "responses": {"input": "hi"},
    "messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5},
    "embeddings": {"input": "hi"},
}
JUNK = st.sampled_from(
    [True, False, "16", "", [], {}, [1], {"a": 1}, -1, 0, 0.5, 1e308, -1e308, 10**20, None]
)


def near(low: float, high: float) -> st.SearchStrategy[float]:
    """In the range, at its ends, and beside them."""
    ends = [low, high, low - 1, high + 1, low - 0.001, high + 0.001]
    return st.sampled_from(ends) | st.floats(low, high, allow_nan=False)


def whole(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high) | st.sampled_from([low, high, low - 1, high + 1])


def sized(name: str, most: int) -> st.SearchStrategy[Any]:
    counts = st.sampled_from([0, 1, most - 1, most, most + 1, 3 * most])
    if name == "guided_regex":
        return counts.map("a".__mul__)
    if name in ("logit_bias", "metadata"):
        return counts.map(lambda count: {str(number): 1 for number in range(count)})
    return counts.map(lambda count: ["x"] * count)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    **{name: whole(*ends) for name, ends in INTEGERS.items()},
    **{name: near(*ends) for name, ends in FLOATS.items()},
    **{name: sized(name, most) for name, most in LENGTHS.items()},
    **dict.fromkeys(REFUSED_FIELDS, JUNK),
}


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    endpoint = draw(st.sampled_from(sorted(PROMPTS)))
    fields = sorted(KNOWN[endpoint]) * 4 + list(REFUSED_FIELDS)
    names = draw(st.lists(st.sampled_from(fields), min_size=1, max_size=3))
    kind = draw(st.integers(0, 5))
    said = {name: draw(JUNK if kind == 0 else VALUES[name]) for name in names}
    return endpoint, {"model": "m", **PROMPTS[endpoint], **said}


seen: Counter[str] = Counter()


@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
@given(bodies())
def one_body(case: tuple[str, dict[str, Any]]) -> None:
    endpoint, said = case
    dialect = DIALECTS[f"/v1/{endpoint}"]
    try:
        body = dialect.parse(json.dumps(said).encode(), BodyBounds())
    except Rejected as refused:
        named = refused.status == 400 and refused.param
        seen["refused" if named else "refused without a name"] += 1
        return
    seen["passed on"] += 1
    sent = json.loads(dialect.upstream_body(body, Rewrite("up", max_tokens_if_absent=64)))
    assert not set(REFUSED_FIELDS) & set(sent)
    for name in KNOWN[endpoint] & set(sent):
        assert sent[name] is None or is_within(name, sent[name]), (endpoint, name, sent[name])


def is_within(name: str, value: Any) -> bool:
    if name == "logprobs" and isinstance(value, bool):
        return True  # of a chat
    if name in INTEGERS:
        low, high = INTEGERS[name]
        return type(value) is int and low <= value <= high
    if name in FLOATS:
        least, most = FLOATS[name]
        right = type(value) in (int, float) and math.isfinite(value)
        return right and least <= value <= most
    return len(value) <= LENGTHS[name]


def ends() -> Iterator[tuple[str, Any, Any]]:
    """Each field with the last values that are right, and the first that are not."""
    for name, (low, high) in INTEGERS.items():
        yield name, low, low - 1
        yield name, high, high + 1
    for name, (least, most) in FLOATS.items():
        yield name, least, least - 0.001
        yield name, most, most + 0.001
    for name, longest in LENGTHS.items():
        items = {str(number): 1 for number in range(longest + 1)}
        given: Any = items if name in ("logit_bias", "metadata") else ["x"] * (longest + 1)
        given = "a" * (longest + 1) if name == "guided_regex" else given
        yield name, dict([*given.items()][1:]) if isinstance(given, dict) else given[1:], given


def is_taken(endpoint: str, said: dict[str, Any]) -> bool:
    raw = json.dumps({"model": "m", **PROMPTS[endpoint], **said}).encode()
    try:
        DIALECTS[f"/v1/{endpoint}"].parse(raw, BodyBounds())
    except Rejected:
        return False
    return True


@pytest.mark.parametrize("endpoint", PROMPTS)
def test_each_range_ends_where_it_should(endpoint: str) -> None:
    """S30"""
    narrower = endpoint == "messages"  # some of its ranges are smaller
    for name, right, wrong in ends():
        if name in KNOWN[endpoint] and (endpoint, name) != ("chat/completions", "logprobs"):
            same = {"n": right} if name in ("best_of", "n_cmpl") else {}
            assert not is_taken(endpoint, {**same, name: wrong}), name
            assert narrower or is_taken(endpoint, {**same, name: right}), name


def test_the_replica_receives_only_values_in_range() -> None:
    """S30"""
    seen.clear()
    one_body()
    print(f"{sum(seen.values())} bodies: {dict(seen)}, none of them out of range")
    assert set(seen) == {"refused", "passed on"}
    assert min(seen.values()) > CASES / 10
