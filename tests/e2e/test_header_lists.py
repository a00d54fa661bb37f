"""Which headers cross the gateway? Names on both sides, exactly; each change is a decision."""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import replace

from tests.e2e.clients import chat
from tests.e2e.installation import Installation
from tests.e2e.operator import Operator
from tests.e2e.scripted import scripted
from tests.fakes.scripts import tokens

FROM_CALLER = """
Connection: close, x-hop
Cookie: session=1
Forwarded: for=10.9.8.7
Keep-Alive: timeout=5
OpenAI-Organization: other
Proxy-Authorization: Basic eA==
Referer: http://evil.example/
TE: trailers
Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
User-Agent: curl
Via: 1.1 proxy
X-Api-Key-Id: other
X-Conversation-Id: kept-alive
X-Fairway-Priority: standard
X-Forwarded-For: 10.9.8.7
X-Forwarded-Host: evil.example
X-Hop: 1
X-Real-Ip: 10.9.8.7
X-Request-Id: mine
X-Tenant: evil
"""
TO_REPLICA = {
    *("host", "content-type", "content-length", "accept", "accept-encoding"),
    *("x-request-id", "traceparent"),
}
FROM_REPLICA = (
    ("Content-Type", "text/event-stream"),
    ("OpenAI-Processing-Ms", "12"),
    *(("Set-Cookie", "a=b"), ("Server", "vllm"), ("Via", "1.1 replica"), ("Alt-Svc", "h3")),
    *(("X-Request-Id", "theirs"), ("X-Powered-By", "vllm 0.99"), ("X-Fairway-Class", "batch")),
    *(("Access-Control-Allow-Origin", "*"), ("X-Ratelimit-Limit-Tokens", "1")),
)
TO_CALLER = {
    *("date", "connection", "transfer-encoding", "content-type", "cache-control"),
    *("x-accel-buffering", "x-request-id", "x-fairway-call-id", "x-fairway-class"),
    *("x-fairway-replica", "x-fairway-queue-ms", "x-fairway-prefix-hit"),
    *("x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    *("x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
}


async def test_only_the_listed_headers_cross_in_either_direction(
    estate: Installation, operator: Operator
) -> None:
    """S25, R30"""
    async with scripted(operator) as replica:
        replica.default = replace(tokens(2), headers=FROM_REPLICA)
        before = len(replica.calls)
        head = await asyncio.to_thread(answer_head, estate)
        request = await replica.arrival(before + 1)
    assert {name.lower() for name in request.headers} == TO_REPLICA
    assert set(head) == TO_CALLER
    assert head["x-request-id"] == "mine"
    assert head["x-ratelimit-limit-tokens"] != "1"
    assert head["x-fairway-class"] == "standard"


def answer_head(place: Installation) -> dict[str, str]:
    body = json.dumps(chat("scripted", max_tokens=2, stream=True)).encode()
    lines = [
        "POST /v1/chat/completions HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {place.api_key}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *FROM_CALLER.strip().splitlines(),
    ]
    with socket.create_connection(("127.0.0.1", place.port), timeout=20) as client:
        client.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        said = b"".join(iter(lambda: client.recv(65536), b""))
    status, *headers = said.split(b"\r\n\r\n")[0].decode().split("\r\n")
    assert status == "HTTP/1.1 200 OK"
    return dict(line.lower().split(": ", 1) for line in headers)
