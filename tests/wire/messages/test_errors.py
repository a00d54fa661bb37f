import json
from typing import Any

import anthropic
import httpx2
import pytest

from gateway.core.errors import CallError, Rejected, UpstreamError
from gateway.core.limits.demands import BucketKey, BucketState
from gateway.core.priority import PriorityClass
from gateway.core.reasons import REASONS, Reason
from gateway.wire.api_styles import ANTHROPIC, OPENAI, style_of
from gateway.wire.request_hints import request_hints
from tests.wire.messages.streams import MESSAGES, WHOLE


def shown(error: CallError) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(MESSAGES.error_body(error, "req-1"))
    assert body.keys() == {"type", "error", "request_id"}
    assert (body["type"], body["request_id"]) == ("error", "req-1")
    told: dict[str, Any] = body["error"]
    return told


def client(answer: httpx2.Response) -> anthropic.Anthropic:
    http = httpx2.Client(transport=httpx2.MockTransport(lambda request: answer))
    return anthropic.Anthropic(api_key="k", base_url="http://g", max_retries=0, http_client=http)


def ask(to: anthropic.Anthropic, **fields: Any) -> Any:
    messages: Any = [{"role": "user", "content": "x"}]
    return to.messages.create(model="m", max_tokens=5, messages=messages, **fields)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_the_public_shape(reason: Reason) -> None:
    error = shown(CallError(reason))
    assert error.keys() == {"type", "message", "details"}
    assert error["message"] == REASONS[reason].meaning
    assert error["details"] == {"error_code": reason}


@pytest.mark.parametrize(
    ("reason", "kind", "raised"),
    [
        (Reason.INVALID_API_KEY, "authentication_error", anthropic.AuthenticationError),
        (Reason.SUSPENDED, "permission_error", anthropic.PermissionDeniedError),
        (Reason.MODEL_NOT_FOUND, "not_found_error", anthropic.NotFoundError),
        (Reason.ENDPOINT_NOT_SERVED, "not_found_error", anthropic.NotFoundError),
        (Reason.INVALID_REQUEST, "invalid_request_error", anthropic.BadRequestError),
        (Reason.CANNOT_FIT, "invalid_request_error", anthropic.BadRequestError),
        (Reason.METHOD_NOT_ALLOWED, "invalid_request_error", anthropic.APIStatusError),
        (Reason.UNSUPPORTED_ENCODING, "invalid_request_error", anthropic.APIStatusError),
        (Reason.BODY_TIMEOUT, "timeout_error", anthropic.APIStatusError),
        (Reason.BODY_TOO_LARGE, "request_too_large", anthropic.APIStatusError),
        (Reason.TOKENS_PER_MINUTE, "rate_limit_error", anthropic.RateLimitError),
        (Reason.SHED, "rate_limit_error", anthropic.RateLimitError),
        (Reason.NO_REPLICA, "overloaded_error", anthropic.InternalServerError),
        (Reason.DRAINING, "overloaded_error", anthropic.InternalServerError),
        (Reason.UPSTREAM_ERROR, "api_error", anthropic.InternalServerError),
        (Reason.UPSTREAM_TIMEOUT, "timeout_error", anthropic.InternalServerError),
        (Reason.INTERNAL, "api_error", anthropic.InternalServerError),
    ],
)
def test_the_official_client_raises_its_own_exception(
    reason: Reason, kind: str, raised: type[anthropic.APIStatusError]
) -> None:
    error = CallError(reason)
    answer = httpx2.Response(
        ANTHROPIC.status(error),
        content=MESSAGES.error_body(error, "req-1"),
        headers={"request-id": "req-1", "content-type": "application/json"},
    )
    with pytest.raises(anthropic.APIStatusError) as caught:
        ask(client(answer))
    assert isinstance(caught.value, raised)
    assert shown(error)["type"] == kind
    assert caught.value.request_id == "req-1"
    assert caught.value.message.count(REASONS[reason].meaning) == 1


def test_what_is_503_elsewhere_is_an_overload_here() -> None:
    assert ANTHROPIC.status(CallError(Reason.NO_REPLICA)) == 529
    assert OPENAI.status(CallError(Reason.NO_REPLICA)) == 503
    assert ANTHROPIC.status(CallError(Reason.SHED)) == 429


def test_refused_field_is_named() -> None:
    error = shown(Rejected(Reason.INVALID_REQUEST, "wrong", param="top_k"))
    assert error["message"] == "wrong"
    assert error["details"] == {"error_code": "invalid_request", "param": "top_k"}


@pytest.mark.parametrize(
    "body",
    [
        b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"}}',
        b'{"error":{"code":400,"type":"exceed_context_size_error","message":"prompt is too long"}}',
    ],
)
def test_refusal_of_a_replica_is_told_in_its_words(body: bytes) -> None:
    refusal = UpstreamError(Reason.UPSTREAM_REFUSED, status=400, upstream_body=body)
    assert shown(refusal)["message"] == "prompt is too long"
    assert shown(refusal)["type"] == "invalid_request_error"


def test_words_of_a_replica_that_are_not_safe_are_kept_back() -> None:
    body = b'{"type":"error","error":{"message":"see http://10.0.0.1/trace"}}'
    refusal = UpstreamError(Reason.UPSTREAM_REFUSED, status=400, upstream_body=body)
    assert shown(refusal)["message"] == REASONS[Reason.UPSTREAM_REFUSED].meaning


def test_error_inside_a_stream_is_raised_by_the_official_client() -> None:
    """G12: and nothing that looks like an end comes after it."""
    cut = WHOLE[: WHOLE.index(b"event: content_block_stop")]
    last = MESSAGES.error_event(UpstreamError(Reason.UPSTREAM_INCOMPLETE), "req-1")
    assert last.startswith(b"event: error\ndata: {")
    assert last.endswith(b"}\n\n")
    answer = httpx2.Response(200, content=cut + last, headers={"content-type": "text/event-stream"})
    events = iter(ask(client(answer), stream=True))
    while next(events).type != "content_block_delta":
        pass
    next(events)
    with pytest.raises(anthropic.APIStatusError, match="api_error"):
        next(events)


def test_keep_alive_of_a_silent_stream_is_ignored_by_the_official_client() -> None:
    ping = ANTHROPIC.keep_alive
    content = ping + WHOLE.replace(b"event: message_delta", ping + b"event: message_delta")
    answer = httpx2.Response(200, content=content, headers={"content-type": "text/event-stream"})
    kinds = [event.type for event in ask(client(answer), stream=True)]
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    assert "ping" not in kinds


def bucket(meter: str, limit: float, used: float, full_again_s: float = 30.0) -> BucketState:
    return BucketState(BucketKey("org:acme", meter), limit, used, 0.0, full_again_s)


def test_limit_headers_tell_the_tightest_bucket_and_a_moment() -> None:
    buckets = [
        bucket("rpm", 60, 1.5, 1.5),
        bucket("tpm", 1000, 100),
        bucket("day", 5000, 4950),
        bucket("itpm", 800, 20),
        bucket("concurrent", 4, 4),
    ]
    assert ANTHROPIC.limit_headers(buckets, 1_700_000_000.25) == {
        "anthropic-ratelimit-requests-limit": "60",
        "anthropic-ratelimit-requests-remaining": "58",
        "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:22Z",
        "anthropic-ratelimit-tokens-limit": "5000",
        "anthropic-ratelimit-tokens-remaining": "50",
        "anthropic-ratelimit-tokens-reset": "2023-11-14T22:13:51Z",
        "anthropic-ratelimit-input-tokens-limit": "800",
        "anthropic-ratelimit-input-tokens-remaining": "780",
        "anthropic-ratelimit-input-tokens-reset": "2023-11-14T22:13:51Z",
    }
    assert ANTHROPIC.limit_headers([], 0.0) == {}


@pytest.mark.parametrize(
    ("path", "headers", "style"),
    [
        ("/v1/messages", {}, ANTHROPIC),
        ("/v1/messages/count_tokens", {}, ANTHROPIC),
        ("/v1/messages/batches", {}, ANTHROPIC),
        ("/v1/models", {"anthropic-version": "2023-06-01"}, ANTHROPIC),
        ("/v1/models/m", {"anthropic-version": "x"}, ANTHROPIC),
        ("/v1/models", {}, OPENAI),
        ("/v1/chat/completions", {"anthropic-version": "2023-06-01"}, OPENAI),
        ("/v1/messagesque", {}, OPENAI),
    ],
)
def test_path_decides_the_style(path: str, headers: dict[str, str], style: object) -> None:
    assert style_of(path, headers) is style


def test_service_tiers_are_those_of_the_api() -> None:
    assert [ANTHROPIC.tier(klass) for klass in PriorityClass] == ["priority", "standard", "batch"]
    assert request_hints({}, "standard_only").klass is PriorityClass.STANDARD
    assert request_hints({}, "auto").klass is None
