import pytest

from gateway.core.errors import Rejected
from gateway.core.limits.demands import BucketKey, BucketState
from gateway.core.priority import PriorityClass
from gateway.wire.durations import go_duration
from gateway.wire.headers import (
    CallLabels,
    call_headers,
    check_content,
    decoded,
    encoded,
    from_replica,
    ratelimit_headers,
    request_id,
    to_replica,
)

SENT_BY_CALLER = {
    "authorization": "Bearer fw-secret",
    "x-api-key": "fw-secret",
    "cookie": "a=b",
    "connection": "keep-alive, x-evil",
    "transfer-encoding": "chunked",
    "te": "trailers",
    "upgrade": "h2c",
    "host": "evil",
    "x-forwarded-for": "1.2.3.4",
    "x-tenant": "other",
    "x-conversation-id": "keep-going",
    "x-request-id": "mine",
    "accept-encoding": "gzip",
    "content-encoding": "gzip",
    "traceparent": "00-1-2-01",
}


def bucket(meter: str, limit: float, used: float, reset_s: float = 60) -> BucketState:
    return BucketState(BucketKey("org:a", meter), limit, used, 0, reset_s)


def test_only_named_headers_reach_the_replica() -> None:
    """R30, S25: nothing hop-by-hop, no identity, nothing that outlives the client."""
    assert to_replica(SENT_BY_CALLER, "call-1") == {
        "traceparent": "00-1-2-01",
        "content-type": "application/json",
        "accept": "text/event-stream",
        "accept-encoding": "identity",
        "x-request-id": "call-1",
    }


def test_only_named_headers_come_back() -> None:
    """R30, S25"""
    sent = {
        "Set-Cookie": "a=b",
        "Server": "uvicorn",
        "Connection": "close",
        "Content-Encoding": "gzip",
        "Content-Length": "5",
        "Keep-Alive": "timeout=5",
        "OpenAI-Processing-Ms": "12",
    }
    assert from_replica(sent) == {"openai-processing-ms": "12"}


def test_first_of_repeated_headers_counts() -> None:
    assert decoded([(b"X-A", b"1"), (b"x-a", b"2")]) == {"x-a": "1"}


def test_values_cannot_break_the_header_block() -> None:
    """S28"""
    assert encoded({"x-a": "a\r\nset-cookie: b=c\u202e"}) == [(b"x-a", b"a??set-cookie: b=c?")]


@pytest.mark.parametrize(
    "value",
    ["application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF8"],
)
def test_json_is_accepted(value: str) -> None:
    check_content({"content-type": value})
    check_content({"content-encoding": "identity"})


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json; charset=utf-16"},
        {"content-type": "application/jsonp"},
        {"content-encoding": "gzip", "content-type": "application/json"},
        {"content-encoding": "identity, br"},
    ],
)
def test_other_content_is_refused(headers: dict[str, str]) -> None:
    """G21, M19, S16, S33"""
    with pytest.raises(Rejected) as caught:
        check_content(headers)
    assert caught.value.status == 415


@pytest.mark.parametrize("value", ["", "a b", "x" * 129, "a\nb", "é"])
def test_odd_request_ids_are_replaced(value: str) -> None:
    assert request_id({"x-request-id": value}, "call-1") == "call-1"


def test_request_id_of_the_caller_is_echoed() -> None:
    assert request_id({"x-request-id": "req_1"}, "call-1") == "req_1"
    assert request_id({"x-client-request-id": "req_2"}, "call-1") == "req_2"


def test_call_is_labelled() -> None:
    labels = CallLabels("c", "r", PriorityClass.BATCH, "gpu-1", None, 0.0125, 0.5)
    assert call_headers(labels) == {
        "x-fairway-call-id": "c",
        "x-request-id": "r",
        "x-fairway-class": "batch",
        "x-fairway-replica": "gpu-1",
        "x-fairway-queue-ms": "12",
        "x-fairway-prefix-hit": "0.500",
    }


def test_tightest_bucket_of_each_unit_is_shown() -> None:
    """G23"""
    buckets = (
        bucket("tpm", 1000, 100.5),
        bucket("day", 50_000, 49_950, 3_600),
        bucket("rpm", 60, 1, 1.0),
        bucket("concurrent", 4, 4),
        bucket("credit", 10, 10),
    )
    assert ratelimit_headers(buckets) == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "50000",
        "x-ratelimit-remaining-tokens": "50",
        "x-ratelimit-reset-tokens": "1h0m0s",
    }
    assert ratelimit_headers(()) == {}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (-1, "0s"), (0.0001, "1ms"), (0.02, "20ms"), (0.9999, "1s"), (1, "1s"),
        (1.5, "1.5s"), (59.999, "59.999s"), (60, "1m0s"), (360, "6m0s"), (3_600, "1h0m0s"),
        (90_061.25, "25h1m1.25s"),
    ],
)  # fmt: skip
def test_durations_are_written_as_go_does(seconds: float, text: str) -> None:
    assert go_duration(seconds) == text
