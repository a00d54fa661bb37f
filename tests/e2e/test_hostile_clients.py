"""Requests that no honest client sends, against the running product."""

from __future__ import annotations

import json
import socket
import time

import pytest

from tests.e2e.clients import chat
from tests.e2e.installation import Installation
from tests.e2e.operator import Operator, Refused

GET = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n"


def said(place: Installation, request: bytes, within_s: float = 8.0) -> bytes:
    """All that comes until the server closes; empty where it only closes."""
    with socket.create_connection(("127.0.0.1", place.port), timeout=within_s) as client:
        answer = b""
        try:
            client.sendall(request)
            while chunk := client.recv(65536):
                answer += chunk
        except ConnectionError:
            pass
        return answer


def test_a_chunked_trailer_is_no_header(estate: Installation) -> None:
    """S24, M4: neither an identity nor anything else; the request is refused."""
    body = json.dumps(chat("sim", max_tokens=1)).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
    head += b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    trailer = b"Authorization: Bearer " + estate.api_key.encode()
    answer = said(estate, head + b"%x\r\n%b\r\n0\r\n%b\r\n\r\n" % (len(body), body, trailer))
    assert answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.alone
@pytest.mark.parametrize("attack", ["long", "many"])
def test_a_huge_head_is_refused_at_once(estate: Installation, attack: str) -> None:
    """Row 10, M3"""
    long, many = b"X: " + b"a" * 4_000_000, b"\r\n".join(b"X-%d: a" % n for n in range(20_000))
    began_s = time.monotonic()
    answer = said(estate, GET + (long if attack == "long" else many) + b"\r\n\r\n")
    assert answer[:12] in (b"HTTP/1.1 431", b"")  # cut while it sends: `said` then reads no more
    assert time.monotonic() - began_s < 2.0


def test_a_callers_request_id_cannot_make_a_header(estate: Installation) -> None:
    body = json.dumps(chat("sim", max_tokens=1))
    for wished in ("ü", "x" * 5000, "<b>", "a\tb"):
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Authorization: Bearer {estate.api_key}\r\nContent-Type: application/json\r\n"
            f"X-Request-Id: {wished}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        answer = said(estate, head.encode() + body.encode())
        assert b" 200 " in answer.splitlines()[0]
        assert wished.encode() not in answer.split(b"\r\n\r\n")[0]


def test_a_stranger_sees_and_changes_nothing(estate: Installation, operator: Operator) -> None:
    """S09, S10, S11"""
    stranger = Operator(estate)
    key = {"authorization": f"Bearer {estate.key_of('bursty-bikes')}"}
    for method, path, body, status in (
        ("GET", "/tenants/acme", None, 404),
        ("GET", "/tenants/acme/calls", None, 404),
        ("GET", "/replicas", None, 403),
        ("PUT", "/tenants/acme/weight", {"weight": 9, "why": "x"}, 404),
        ("PUT", "/tenants/bursty-bikes/weight", {"weight": 9, "why": "x"}, 403),
        ("PATCH", "/tenants/bursty-bikes", {"name": "x", "weight": 9}, 422),
    ):
        with pytest.raises(Refused) as refused:
            stranger.ask(method, path, body, key)
        assert refused.value.status == status, (method, path)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/files"])
@pytest.mark.parametrize(
    ("header", "status"), [("Content-Length: 9000000000", 413), ("Content-Encoding: gzip", 415)]
)
def test_a_body_that_is_refused_unread_ends_the_connection_in_the_apis_words(
    estate: Installation, path: str, header: str, status: int
) -> None:
    """Row 11, S33: nothing of the body was sent; the answer does not wait for it."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {estate.api_key}\r\n"
    head += f"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n{header}\r\n\r\n"
    if status == 413:
        head = head.replace("Transfer-Encoding: chunked\r\n", "")
    if path == "/v1/files":
        head = head.replace("application/json", "multipart/form-data; boundary=x")
    told, _, body = said(estate, head.encode()).partition(b"\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 %d " % status)
    assert b"connection: close" in told
    error = json.loads(body)["error"]
    reason = "body_too_large" if status == 413 else "unsupported_encoding"
    assert reason in (error.get("code"), error.get("details", {}).get("error_code"))
