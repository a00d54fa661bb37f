import json
import random
from typing import Any

import httpx2
import openai
import pytest

from gateway.core.errors import (
    CallError,
    Evicted,
    LimitExceeded,
    Rejected,
    UpstreamError,
)
from gateway.core.reasons import REASONS, Reason
from gateway.wire.errors import excerpt_for_operators
from gateway.wire.retry_headers import error_headers
from tests.wire.chat.streams import CHAT, WHOLE


def shown(error: CallError) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(CHAT.error_body(error, "id"))["error"]
    return body


def refused(body: bytes, status: int = 400) -> UpstreamError:
    return UpstreamError(Reason.UPSTREAM_REFUSED, status=status, upstream_body=body)


def told(message: Any, **fields: Any) -> dict[str, Any]:
    return shown(refused(json.dumps({"error": {"message": message, **fields}}).encode()))


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_the_public_shape(reason: Reason) -> None:
    error = shown(CallError(reason))
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == reason
    assert error["message"] == REASONS[reason].meaning


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (Reason.INVALID_API_KEY, "invalid_request_error"),
        (Reason.TOKENS_PER_MINUTE, "tokens"),
        (Reason.REQUESTS_PER_MINUTE, "requests"),
        (Reason.CREDIT_EXHAUSTED, "insufficient_quota"),
        (Reason.SHED, "rate_limit_error"),
        (Reason.NO_REPLICA, "server_error"),
        (Reason.UPSTREAM_ERROR, "server_error"),
    ],
)
def test_types_are_those_of_the_api(reason: Reason, kind: str) -> None:
    assert shown(CallError(reason))["type"] == kind


def test_refused_field_is_named() -> None:
    error = shown(Rejected(Reason.INVALID_REQUEST, "wrong", param="n"))
    assert (error["message"], error["param"]) == ("wrong", "n")


def test_error_event_is_one_plain_data_frame() -> None:
    raw = CHAT.error_event(UpstreamError(Reason.UPSTREAM_INCOMPLETE), "id")
    assert raw.startswith(b'data: {"error":')
    assert raw.endswith(b"}\n\n")
    assert raw.count(b"\n") == 2
    assert b"[DONE]" not in raw


def test_refusal_of_a_replica_is_told_in_its_words() -> None:
    words = "request (5015 tokens) exceeds the available context size (4096 tokens), try increasing"
    error = told(words, type="exceed_context_size_error", code=400)
    assert error["message"] == words
    assert error["code"] == "context_length_exceeded"
    assert told("no", param="messages[0].role", code="bad_role")["param"] == "messages[0].role"
    assert shown(refused(b'{"object":"error","message":"too long"}'))["message"] == "too long"


UNSAFE = (
    "<html><body>502</body></html>",
    "see <script>alert(1)</script>",
    'Traceback (most recent call last): File "x.py"',
    "cannot open /srv/models/llama/config.json",
    "bad key sk-abcdef0123456789",
    "Authorization: Bearer abc",
    "visit http://10.0.0.7:8000/admin",
    "C:\\models\\x",
    "a\x1b[31mred",
    "",
    {"a": 1},
    None,
)


@pytest.mark.parametrize("message", UNSAFE)
def test_untrusted_words_are_not_repeated(message: Any) -> None:
    """S42"""
    assert told(message)["message"] == REASONS[Reason.UPSTREAM_REFUSED].meaning


@pytest.mark.parametrize("body", [b"", b"<html>x</html>", b"[1]", b'"x"', b"\xff", b"[" * 5000])
def test_garbage_body_gets_the_generic_message(body: bytes) -> None:
    """S42, row 48"""
    assert shown(refused(body))["message"] == REASONS[Reason.UPSTREAM_REFUSED].meaning


def test_failures_never_tell_the_replicas_words() -> None:
    """S42"""
    error = UpstreamError(Reason.UPSTREAM_ERROR, upstream_body=b'{"error":{"message":"boom"}}')
    assert "boom" not in str(shown(error))


def test_an_excerpt_for_operators_is_one_line_without_keys_and_quotations() -> None:
    """S42: a replica may quote the prompt, and its own credentials."""
    quoted = "my secret prompt " * 5
    said = {"message": f"Bad\r\n\x1b[31mfield '{quoted}'\u202e: key sk-abc123 is\tunknown"}
    assert excerpt_for_operators(json.dumps({"error": said}).encode()) == (
        "Bad [31mfield '…' : key *** is unknown"
    )
    assert excerpt_for_operators(b"<h1>502 Bad Gateway</h1>\n") == "<h1>502 Bad Gateway</h1>"
    assert excerpt_for_operators(b'{"detail": "Not Found"}') == "Not Found"
    assert len(excerpt_for_operators(b"word " * 100_000)) == 300
    assert [excerpt_for_operators(body) for body in (b"", b'{"input": "prompt"}')] == ["", ""]


def test_long_words_are_cut() -> None:
    assert len(told("word " * 1_000)["message"]) == 1_000


@pytest.mark.parametrize("seed", range(200))
def test_retry_after_is_never_less_than_computed(seed: int) -> None:
    """G23"""
    wait_s = random.Random(seed).uniform(0.001, 200)
    error = Evicted(Reason.QUEUE_TIMEOUT, retry_after_s=wait_s)
    headers = error_headers(error, random.Random(seed))
    wait_ms = int(headers["retry-after-ms"])
    assert wait_s * 1000 <= wait_ms <= wait_s * 1200 + 1
    assert int(headers["retry-after"]) == max(1, -(-wait_ms // 1000))
    assert headers.get("x-should-retry") == ("false" if wait_ms > 60_000 else None)


@pytest.mark.parametrize("reason", [r for r in Reason if REASONS[r].status in (429, 503)])
def test_every_429_and_503_says_when_to_come_back(reason: Reason) -> None:
    """G23: also where nothing could be computed."""
    headers = error_headers(CallError(reason), random.Random(1))
    assert int(headers["retry-after"]) >= 1
    assert int(headers["retry-after-ms"]) >= 1
    assert headers["x-fairway-reason"] == reason


def test_waits_of_refused_callers_are_spread() -> None:
    error = CallError(Reason.SHED, retry_after_s=10)
    rng = random.Random(3)
    assert len({error_headers(error, rng)["retry-after-ms"] for _ in range(50)}) > 40


def test_exhausted_credit_is_never_retried() -> None:
    error = LimitExceeded(
        Reason.CREDIT_EXHAUSTED, "", bucket="b", limit=1, used=1, needed=1, retry_after_s=5
    )
    assert error_headers(error, random.Random(1))["x-should-retry"] == "false"


def test_other_statuses_say_nothing_about_retrying() -> None:
    assert error_headers(CallError(Reason.UPSTREAM_ERROR), random.Random(1)) == {
        "x-fairway-reason": "upstream_error"
    }


def client_for(status: int, body: bytes, headers: dict[str, str]) -> openai.OpenAI:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, content=body, headers=headers)

    transport = httpx2.MockTransport(answer)
    http = httpx2.Client(transport=transport)
    return openai.OpenAI(api_key="k", base_url="http://x/v1", max_retries=0, http_client=http)


@pytest.mark.parametrize("reason", [r for r in Reason if REASONS[r].status < 499 or r in ("shed",)])
def test_official_client_reads_our_errors(reason: Reason) -> None:
    error = CallError(reason, param="p")
    headers = {"content-type": "application/json", **error_headers(error, random.Random(1))}
    client = client_for(error.status, CHAT.error_body(error, "id"), headers)
    with pytest.raises(openai.APIStatusError) as caught:
        client.models.list()
    assert (caught.value.code, caught.value.param) == (reason, "p")
    assert caught.value.status_code == error.status


def test_official_client_raises_at_our_error_event() -> None:
    """G12"""
    event = CHAT.error_event(UpstreamError(Reason.UPSTREAM_INCOMPLETE), "id")
    head = {"content-type": "text/event-stream"}
    client = client_for(200, WHOLE.partition(b"data: [DONE]")[0] + event, head)
    stream = client.chat.completions.create(model="m", messages=[], stream=True)
    with pytest.raises(openai.APIError) as caught:
        list(stream)
    assert caught.value.code == "upstream_incomplete"
