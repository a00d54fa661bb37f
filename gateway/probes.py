"""Is this process alive, is it ready, and what does it count? Raw ASGI.

The status code is the contract: ``/livez`` depends on nothing; ``/readyz`` is 503 before the start,
while draining and while memory is so short that every call is refused, and otherwise names what is
degraded, because a gateway that has lost its quota store still serves. No prompt or key appears
here.

The metrics name tenants and their volumes, which are nobody else's business: with a token they ask
for it (``Authorization: Bearer``), without one they answer this machine only, and nothing that a
proxy has passed on.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gateway.metrics import CONTENT_TYPE
from gateway.wire.headers import decoded

Send = Callable[[dict[str, Any]], Awaitable[None]]

ALIVE = frozenset(("/livez", "/health"))
NOT_READY = frozenset(("draining", "full"))
PROXIED = frozenset(("forwarded", "x-forwarded-for", "x-real-ip"))
WHO_READS_METRICS = (
    "Metrics are for this machine, or for the bearer of FAIRWAY_GATEWAY_METRICS_TOKEN."
)


@dataclass(frozen=True, slots=True)
class Probes:
    ready: Callable[[], bool]
    degraded: Callable[[], Mapping[str, str]]
    metrics: Callable[[], bytes]
    metrics_token: str = field(default="", repr=False)
    full: Callable[[], bool] = lambda: False  # every call is refused

    async def __call__(self, scope: dict[str, Any], receive: object, send: Send) -> None:
        path = scope["path"]
        if path == "/metrics":
            await self._metrics(scope, send)
        elif path in ALIVE:
            await _answer(send, 200, b'{"status":"alive"}')
        else:
            degraded = dict(self.degraded())
            word = self._word(bool(degraded))
            body = msgspec.json.encode({"status": word, "degraded": degraded})
            await _answer(send, 503 if word in NOT_READY else 200, body)

    def _word(self, degraded: bool) -> str:
        if not self.ready():
            return "draining"
        if self.full():
            return "full"
        return "degraded" if degraded else "ready"

    async def _metrics(self, scope: dict[str, Any], send: Send) -> None:
        if self._may_read_metrics(scope):
            await _answer(send, 200, self.metrics(), CONTENT_TYPE)
        else:
            await _answer(send, 403, msgspec.json.encode({"detail": WHO_READS_METRICS}))

    def _may_read_metrics(self, scope: dict[str, Any]) -> bool:
        headers = decoded(scope["headers"])
        if self.metrics_token:
            wanted = f"Bearer {self.metrics_token}".encode()
            return hmac.compare_digest(headers.get("authorization", "").encode(), wanted)
        return not PROXIED & headers.keys() and _is_this_machine(scope.get("client"))


def _is_this_machine(client: tuple[str, int] | None) -> bool:
    return client is not None and ipaddress.ip_address(client[0]).is_loopback


async def _answer(
    send: Send, status: int, body: bytes, content_type: str = "application/json"
) -> None:
    headers = [
        (b"content-type", content_type.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
