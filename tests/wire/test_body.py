import gc
import json
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.errors import Rejected
from gateway.core.reasons import Reason
from gateway.wire.body import REFUSED_FIELDS
from gateway.wire.dialect import BodyBounds, Dialect, Rewrite
from tests.wire.chat.streams import CHAT, COMPLETIONS, HELLO, parsed


def refusal(raw: bytes, dialect: Dialect = CHAT) -> Rejected:
    with pytest.raises(Rejected) as caught:
        dialect.parse(raw, BodyBounds())
    assert caught.value.reason is Reason.INVALID_REQUEST
    assert caught.value.status == 400
    return caught.value


def refused_field(dialect: Dialect = CHAT, **fields: Any) -> str | None:
    start = HELLO if dialect is CHAT else {"model": "m", "prompt": "hi"}
    return refusal(json.dumps({**start, **fields}).encode(), dialect).param


def with_raw(value: str) -> bytes:
    return json.dumps(HELLO)[:-1].encode() + f',"x":{value}}}'.encode()


NOT_JSON = {
    "empty": b"",
    "text": b"hello",
    "array": b"[]",
    "number": b"1",
    "trailing": b"{} {}",
    "NaN": with_raw("NaN"),
    "infinity": with_raw("-Infinity"),
    "beyond float": with_raw("1e999"),
    "5,000 digits": with_raw("1" * 5000),
    "lone surrogate": with_raw(r'"\ud800"'),
    "low surrogate": with_raw(r'"\udc00x"'),
    "escaped NUL": with_raw(r'"a\u0000b"'),
    "escaped NUL after a backslash": with_raw(r'"\\\u0000"'),
    "NUL": with_raw('"\x00"'),
    "UTF-16": json.dumps(HELLO).encode("utf-16"),
    "bad UTF-8": b'{"model":"\xff"}',
    "too deep": with_raw("[" * 64 + "]" * 64),
    "far too deep": with_raw("[" * 100_000),
    "object too deep": with_raw('{"a":' * 900 + "1" + "}" * 900),
    "too many keys": with_raw(json.dumps({str(i): i for i in range(4_096)})),
    "too many small objects": with_raw(json.dumps([{"a": 1}] * 4_096)),
    "too many empty lists": with_raw(json.dumps([[]] * 4_096)),
    "too many parts": json.dumps(
        {**HELLO, "messages": [{"role": "user", "content": [{}] * 4_096}]}
    ).encode(),
}


@pytest.mark.parametrize("raw", NOT_JSON.values(), ids=NOT_JSON)
def test_what_is_not_plain_json_is_refused(raw: bytes) -> None:
    """S32, S35, M19"""
    refusal(raw)


def test_depth_in_a_message_is_bounded_like_elsewhere() -> None:
    deep: Any = 1
    for _ in range(62):
        deep = [deep]
    assert parsed(messages=[{"role": "user", "x": deep[0]}])
    refusal(json.dumps({**HELLO, "messages": [{"role": "user", "x": [deep]}]}).encode())


def test_bounds_are_the_largest_that_pass() -> None:
    """S32"""
    assert CHAT.parse(with_raw("[" * 63 + "]" * 63), BodyBounds())
    keys = {str(i): i for i in range(4_096 - len(HELLO) - 1)}
    assert CHAT.parse(with_raw(json.dumps(keys)), BodyBounds())


def test_long_conversation_is_no_bomb() -> None:
    messages = [{"role": "user", "content": "a: {b}"}] * 10_000
    assert parsed(messages=messages).prompt_bytes == 10_000 * 10


def test_brackets_inside_text_do_not_count() -> None:
    code = '{"[\\\\"' * 40_000
    assert parsed(messages=[{"role": "user", "content": code}]).prompt_bytes == len(code) + 4


def test_containers_are_counted_exactly_wherever_the_text_is_cut() -> None:
    """S32: strings of every length in between, so that slices end inside and outside of them."""
    bounds, others = BodyBounds(max_keys=40_000), 4  # the body, its messages, one of them, the list
    strings = ['["' + "[" * size + '\\\\\\""]' for size in range(900)]
    lists = ["[]"] * (bounds.max_containers - others - len(strings))
    assert CHAT.parse(with_raw(f"[{','.join(strings + lists)}]"), bounds)
    with pytest.raises(Rejected, match="objects and lists"):
        CHAT.parse(with_raw(f"[{','.join(strings + lists + ['[]'])}]"), bounds)


def test_keys_are_bounded_before_they_are_made() -> None:
    """S32: in all, and by the bytes of a long conversation."""
    bounds = BodyBounds(max_keys=10**6, max_keys_in_all=1_000)
    some = {str(number): ":" for number in range(1_000 - len(HELLO) - 3)}  # role, content, x
    assert CHAT.parse(with_raw(json.dumps(some)), bounds)
    with pytest.raises(Rejected, match="more than 1000 keys"):
        CHAT.parse(with_raw(json.dumps({**some, "one": 1})), bounds)
    wordy = {**some, "one": "x" * 20_100}
    assert CHAT.parse(with_raw(json.dumps(wordy)), bounds)


def test_text_that_speaks_of_nul_passes() -> None:
    body = CHAT.parse(with_raw(r'"\\u0000 \\\\u0000"'), BodyBounds()).body
    assert body["x"] == r"\u0000 \\u0000"


def test_last_of_duplicate_keys_wins_also_upstream() -> None:
    """M19, S32"""
    raw = b'{"model":"a","model":"b","messages":[{"role":"user","role":"tool"}]}'
    body = CHAT.parse(raw, BodyBounds())
    sent = json.loads(CHAT.upstream_body(body, Rewrite("up")))
    assert body.model == "b"
    assert sent["messages"] == [{"role": "tool"}]


@pytest.mark.parametrize("name", REFUSED_FIELDS)
def test_fields_that_steer_the_replica_are_refused(name: str) -> None:
    """S21"""
    assert refused_field(CHAT, **{name: None}) == name


def test_keys_of_other_services_are_refused() -> None:
    """S21"""
    assert refused_field(metadata={"x_api_key": "s"}) == "metadata.x_api_key"


WRONG: dict[str, list[Any]] = {
    "model": [None, "", 1, "a\nb", "a\n", "x" * 257],
    "stream": [1, "true"],
    "stream_options": [True, []],
    "max_tokens": [0, -5, True, "16", 1.5, 10**20],
    "max_completion_tokens": [0, False, 1e3],
    "n_predict": [-1],
    "n": [0, 9, True],
    "temperature": [-0.1, 2.1, "1", True],
    "top_p": [-1, 1.1],
    "top_k": [-2, 0.5],
    "presence_penalty": [-2.1],
    "frequency_penalty": [2.1],
    "seed": [2**63, 1.5],
    "stop": [["x"] * 17, 5, "x" * 1_025],
    "logit_bias": [{str(i): 1 for i in range(301)}, {"1": 101}, {"1": "a"}, []],
    "logprobs": [5, "yes"],
    "top_logprobs": [21, -1, True],
    "n_probs": [21, -1, 50_000],
    "n_cmpl": [0, 9],
    "messages": [None, [], "hi", [1], [{"content": "x"}], [{"role": "user", "content": 1}]],
    "tools": [{}, ["x"]],
    "response_format": ["json", {}],
    "guided_regex": ["x" * 513],
    "structured_outputs": [{"regex": "x" * 513}],
    "user": [5],
    "metadata": [[], {str(i): "" for i in range(17)}],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_known_fields_are_checked_and_named(name: str, value: Any) -> None:
    """S30, M19"""
    param = refused_field(**{name: value})
    assert param is not None
    assert param.startswith(name)


def test_missing_fields_are_named() -> None:
    assert refusal(b'{"messages":[{"role":"user"}]}').param == "model"
    assert refusal(b'{"model":"m"}').param == "messages"
    assert refusal(b'{"model":"m","messages":[{}]}').param == "messages[0].role"
    assert refusal(b'{"model":"m"}', COMPLETIONS).param == "prompt"


def test_control_characters_in_a_name_are_called_so() -> None:
    raw = json.dumps({**HELLO, "model": "a\nb"}).encode()
    assert refusal(raw).message == "The field `model` has control characters."


def test_refusals_do_not_quote_the_body() -> None:
    for raw in (b'{"secret', b'{"model":"m","messages":"secret"}', with_raw('"secret'[:-1])):
        assert "secret" not in refusal(raw).message


def test_null_is_the_same_as_absent() -> None:
    nulls = {name: None for name in WRONG if name not in ("model", "messages")}
    assert parsed(CHAT, **nulls).max_output_tokens is None


def test_the_largest_cap_counts() -> None:
    """G3"""
    assert parsed(max_tokens=1, max_completion_tokens=10_000).max_output_tokens == 10_000
    assert parsed(max_tokens=5, n_predict=7).max_output_tokens == 7
    assert parsed().max_output_tokens is None


@pytest.mark.parametrize(
    ("prompt", "n"),
    [("a", 1), (["a", "b"], 2), ([1, 2, 3], 1), ([[1], [2, 3]], 2)],
)
def test_prompts_multiply_choices(prompt: Any, n: int) -> None:
    assert parsed(COMPLETIONS, prompt=prompt).n == n
    assert parsed(COMPLETIONS, prompt=prompt, n=3).n == 3 * n


@pytest.mark.parametrize(
    "prompt", [[], ["a", 1], [["a"]], [True], [-1], ["a"] * 129, {}, None, [[1], "a"]]
)
def test_odd_prompts_are_refused(prompt: Any) -> None:
    param = refused_field(COMPLETIONS, prompt=prompt)
    assert param is not None
    assert param.startswith("prompt")


@pytest.mark.parametrize("name", ["best_of", "n_cmpl"])
@pytest.mark.parametrize("dialect", [CHAT, COMPLETIONS], ids=["chat", "completions"])
def test_other_names_of_the_number_of_choices_say_the_same(dialect: Dialect, name: str) -> None:
    """S30: llama.cpp makes ``n_cmpl`` choices, which nobody would have counted."""
    assert refused_field(dialect, **{name: 2}) == name
    assert parsed(dialect, **{name: 2}, n=2).n == 2
    assert parsed(dialect, **{name: 1}).n == 1


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
)
NAMES = st.text("abcxyz_é ", min_size=1, max_size=8).map("x-".__add__)
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=4) | st.dictionaries(NAMES, v, max_size=4)
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(NAMES, VALUES, max_size=5), VALUES)
def test_unknown_fields_reach_the_replica_exactly(fields: dict[str, Any], inner: Any) -> None:
    """G11: at the top, in messages and in nested known fields."""
    raw = json.dumps(
        {**HELLO, **fields, "tool_choice": {"x": inner}, "stream_options": {"y": inner}}
    )
    sent = json.loads(CHAT.upstream_body(CHAT.parse(raw.encode(), BodyBounds()), Rewrite("up")))
    for name, value in fields.items():
        assert repr(sent[name]) == repr(value)
    assert repr(sent["tool_choice"]["x"]) == repr(inner)
    assert repr(sent["stream_options"]["y"]) == repr(inner)


NUMBERS = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(sorted(WRONG)), NUMBERS | st.booleans() | st.text("ab1", max_size=3))
def test_no_out_of_range_value_ever_reaches_the_replica(name: str, value: Any) -> None:
    """S30"""
    try:
        body = parsed(**{name: value})
    except Rejected:
        return
    sent = json.loads(CHAT.upstream_body(body, Rewrite("up")))
    for cap in ("max_tokens", "max_completion_tokens", "n_predict"):
        assert sent.get(cap) is None or 1 <= sent[cap] < 2**31
    assert sent.get("n") in (None, *range(1, 9))
    assert sent.get("temperature") is None or 0 <= sent["temperature"] <= 2


BOMBS = {
    "open lists": with_raw("[" * 1_000_000),
    "open objects": with_raw('{"a":' * 200_000),
    "empty lists": with_raw("[" + "[]," * 350_000 + "1]"),
    "empty objects": with_raw("[" + "{}," * 350_000 + "1]"),
    "deep lists": with_raw("[" + ("[" * 60 + "]" * 60 + ",") * 8_000 + "1]"),
    "empty parts": b'{"model":"m","messages":[{"role":"user","content":['
    + b"{}," * 350_000
    + b"{}]}]}",
    "escapes without an end": with_raw("[" * 70_000 + '"' + '\\"' * 400_000 + "\\")[:-1],
    "keys": with_raw(json.dumps({str(i): i for i in range(100_000)})),
    "messages": b'{"model":"m","messages":[' + b'{"role":"user"},' * 32_000 + b"1]}",
    "parts": b'{"model":"m","messages":['
    + b'{"role":"user","content":["a",{},{}]},' * 8_000
    + b"1]}",
    "escaped quotes": with_raw("[" + r'["\"", {}],' * 75_000 + "1]"),
}


@pytest.fixture
def frozen_heap() -> Iterator[None]:
    """As the server does: what was there before is not walked by the collector. The objects of the
    other tests of this process would be, many times over."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("raw", BOMBS.values(), ids=BOMBS)
@pytest.mark.alone
@pytest.mark.usefixtures("frozen_heap")
def test_bombs_cost_little_time(raw: bytes) -> None:
    """S32: a MiB of them costs at most 100 ms, most of it in decoding."""
    started = time.thread_time()
    refusal(raw)
    assert time.thread_time() - started < 0.1


@pytest.mark.alone
@pytest.mark.usefixtures("frozen_heap")
def test_large_prompt_is_parsed_within_one_callback_budget() -> None:
    """G21: 1.5 M tokens of text."""
    raw = json.dumps({**HELLO, "messages": [{"role": "user", "content": "word: " * 1_000_000}]})
    started = time.thread_time()
    assert CHAT.parse(raw.encode(), BodyBounds()).prompt_bytes == 6_000_004
    assert time.thread_time() - started < 0.1


def test_parsed_body_shows_no_prompt_in_its_repr() -> None:
    assert "secret" not in repr(parsed(messages=[{"role": "user", "content": "secret"}]))


def test_bounds_are_arguments() -> None:
    with pytest.raises(Rejected):
        CHAT.parse(msgspec.json.encode(HELLO), BodyBounds(max_depth=2))
