from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest

from gateway.core.dispatch.effects import Usage
from gateway.core.errors import Rejected, ReplicaFull, UpstreamError
from gateway.core.reasons import Reason
from gateway.wire import DIALECTS
from gateway.wire.answers.whole_body import WholeBody
from gateway.wire.dialect import BodyBounds, FrameFacts, ParsedBody, Rewrite
from gateway.wire.embeddings.fields import MAX_INPUTS

EMBEDDINGS = DIALECTS["/v1/embeddings"]
USAGE = {"prompt_tokens": 7, "total_tokens": 7, "completion_tokens": 5}


def parsed(given: Any = "hi", **fields: Any) -> ParsedBody:
    body = {"model": "m", "input": given, **fields}
    return EMBEDDINGS.parse(json.dumps(body).encode(), BodyBounds())


def answer(count: int = 1, **fields: Any) -> bytes:
    data = [{"object": "embedding", "index": i, "embedding": [0.5, -1e-9]} for i in range(count)]
    return json.dumps(
        {"object": "list", "data": data, "model": "up", "usage": USAGE, **fields}
    ).encode()


def read(raw: bytes, body: ParsedBody | None = None, size: int = 1000) -> list[FrameFacts]:
    reader, splitter = EMBEDDINGS.reader(body or parsed(), Rewrite("up")), EMBEDDINGS.splitter()
    frames = [f for at in range(0, len(raw), size) for f in splitter.feed(raw[at : at + size])]
    return [reader.facts(frame) for frame in frames + splitter.finish()]


def test_what_a_field_may_not_say_is_not_repeated_however_long_it_is() -> None:
    """S34: near misses of the place that the decoder names, 1 MB of them."""
    with pytest.raises(Rejected) as caught:
        parsed(encoding_format=" - at `$.x`" * 100_000)
    assert caught.value.param == "encoding_format"
    assert caught.value.message == "The field `encoding_format` is wrong: Invalid enum value."


@pytest.mark.parametrize(
    ("given", "prompt_bytes", "vectors"),
    [
        ("hello", 5, 1),
        (["hello", "é"], 7, 2),
        ([1, 2, 3], 12, 1),
        ([[1, 2, 3], [4]], 16, 2),
    ],
)
def test_each_form_of_input_is_counted(given: Any, prompt_bytes: int, vectors: int) -> None:
    body = parsed(given)
    assert body.prompt_bytes == prompt_bytes
    (facts,) = read(answer(vectors), body)
    assert (facts.is_done, facts.error) == (True, None)


def test_nothing_is_generated_and_nothing_is_streamed() -> None:
    body = parsed(stream=False)
    assert (body.n, body.generates, body.stream) == (0, False, False)
    assert body.max_output_tokens is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": ["a", 1]}, "input"),
        ({"input": [[]]}, "input[0]"),
        ({"input": [-1]}, "input[0]"),
        ({"input": {"a": 1}}, "input"),
        ({"input": None}, "input"),
        ({"input": ["a"] * (MAX_INPUTS + 1)}, "input"),
        ({"encoding_format": "bytes"}, "encoding_format"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": True}, "dimensions"),
        ({"user": 5}, "user"),
        ({"stream": True}, "stream"),
        ({"model": ""}, "model"),
        ({"api_base": "http://evil"}, "api_base"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(Rejected) as caught:
        parsed(
            **{"given": "hi", **{("given" if k == "input" else k): v for k, v in fields.items()}}
        )
    assert caught.value.reason is Reason.INVALID_REQUEST
    assert caught.value.param == param


def test_a_missing_input_is_named() -> None:
    with pytest.raises(Rejected) as caught:
        EMBEDDINGS.parse(b'{"model":"m"}', BodyBounds())
    assert caught.value.param == "input"


def test_the_most_inputs_are_accepted() -> None:
    assert parsed([[1, 2]] * MAX_INPUTS).prompt_bytes == 8 * MAX_INPUTS


def test_a_long_text_in_token_ids_is_no_list_of_messages() -> None:
    assert parsed([7] * 100_000, vendor=[[]] * 100).prompt_bytes == 400_000


def test_what_the_replica_gets_is_no_stream_and_keeps_unknown_fields() -> None:
    fields = {"encoding_format": "base64", "dimensions": 8, "vendor": {"deep": [1, None]}}
    body = parsed(["a"], stream=False, stream_options={}, cache_salt="mine", priority=-9, **fields)
    rewrite = Rewrite("up", cache_salt="salt", max_tokens_if_absent=9, extras={"timings": True})
    assert json.loads(EMBEDDINGS.upstream_body(body, rewrite)) == {
        "model": "up",
        "input": ["a"],
        "cache_salt": "salt",
        **fields,
    }


def test_the_answer_is_relayed_byte_for_byte_however_it_was_cut() -> None:
    floats = base64.b64encode(bytes(range(16))).decode()
    raw = b' {"data" : [ {"embedding":"%s","x":"\\u00fc"} ],"usage":{"prompt_tokens":3}}\n'
    raw %= floats.encode()
    for size in range(1, len(raw) + 1):
        (facts,) = read(raw, size=size)
        assert facts.relay == raw
        assert facts.usage == Usage(3, 0, 0)
    aggregator = EMBEDDINGS.aggregator(parsed())
    for frame in _frames(raw):
        aggregator.feed(frame)
    assert aggregator.result(service_tier="flex") == raw


def test_only_prompt_tokens_are_used() -> None:
    (facts,) = read(answer())
    assert facts.usage == Usage(7, 0, 0)
    assert (facts.tokens, facts.has_content, facts.commits) == (0, True, True)


@pytest.mark.parametrize("usage", [None, 5, {}, {"prompt_tokens": "x"}, {"prompt_tokens": -1}, []])
def test_an_odd_usage_is_not_an_error(usage: Any) -> None:
    (facts,) = read(answer(usage=usage))
    assert facts.error is None
    assert facts.usage in (None, Usage(0, 0, 0))


FAILURES: dict[str, bytes] = {
    "error object": b'{"error":{"message":"boom","code":500}}',
    "error beside data": answer(error={"message": "boom"}),
    "object error": b'{"object":"error","message":"boom"}',
    "bare error": b'{"message":"boom","type":"server_error"}',
    "no vectors": b'{"object":"list"}',
    "data of another type": b'{"data":"boom"}',
    "no JSON": b"boom",
    "no object": b"[1]",
    "bad UTF-8": b'{"data":["\xff"],"usage":{"prompt_tokens":"\xff"}}',
    "cut": answer()[:-1],
    "nested too deep": b'{"data":[' + b"[" * 3000,
    "too few vectors": answer(0),
    "too many vectors": answer(2),
}


@pytest.mark.parametrize("raw", FAILURES.values(), ids=FAILURES)
def test_an_answer_without_its_vectors_is_the_replicas_failure(raw: bytes) -> None:
    (facts,) = read(raw)
    assert isinstance(facts.error, UpstreamError)
    assert facts.error.status == 502
    assert facts.error.retryable
    assert (facts.relay, facts.is_done, facts.commits) == (b"", False, False)
    assert "boom" not in facts.error.message


def test_a_wrong_number_of_vectors_counts_against_no_replica() -> None:
    """Servers differ in what a list of numbers is."""
    (facts,) = read(answer(3), parsed([1, 2, 3]))
    assert facts.error is not None
    assert not facts.error.blames_replica


def test_a_status_inside_a_200_is_what_counts() -> None:
    (refused,) = read(b'{"error":{"message":"Too long.","code":400}}')
    assert refused.error is not None
    assert refused.error.reason is Reason.UPSTREAM_REFUSED
    (full,) = read(b'{"object":"error","message":"busy","code":"503"}')
    assert isinstance(full.error, ReplicaFull)


def test_an_empty_body_is_no_answer() -> None:
    assert read(b"") == []
    assert not EMBEDDINGS.reader(parsed(), Rewrite("up")).is_complete(needs_done=False)


def test_a_body_beyond_the_bound_is_refused_while_it_is_read() -> None:
    body = WholeBody(max_bytes=10)
    assert body.feed(b"x" * 10) == []
    with pytest.raises(UpstreamError) as caught:
        body.feed(b"x")
    assert not caught.value.retryable


def test_five_thousand_generated_answers_never_raise() -> None:
    """G9, row 44: mutated and cut."""
    rng = random.Random(44)
    pieces = [*FAILURES.values(), answer(), answer(3), answer(usage={"prompt_tokens": 10**30})]
    for _ in range(5_000):
        raw = bytearray(rng.choice(pieces))
        for _ in range(rng.randint(0, 3)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        whole = bytes(raw[: rng.randint(1, len(raw))])
        (facts,) = read(whole, size=rng.randint(1, 80))
        assert facts.is_done == (facts.error is None)
        assert facts.relay == (whole if facts.is_done else b"")


def _frames(raw: bytes) -> list[Any]:
    splitter = EMBEDDINGS.splitter()
    return splitter.feed(raw) + splitter.finish()
