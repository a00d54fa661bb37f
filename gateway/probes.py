"""Is this process alive, is it ready, and what does it count? Raw ASGI, no authentication.

The status code is the contract: ``/livez`` depends on nothing; ``/readyz`` is 503 before the start
and while draining, and otherwise names what is degraded, because a gateway that has lost its quota
store still serves. No prompt or key appears here; the metrics name tenants and their volumes, so
that whoever exposes the port keeps ``/metrics`` for the monitoring.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.metrics import CONTENT_TYPE

Send = Callable[[dict[str, Any]], Awaitable[None]]

ALIVE = frozenset(("/livez", "/health"))


@dataclass(frozen=True, slots=True)
class Probes:
    ready: Callable[[], bool]
    degraded: Callable[[], Mapping[str, str]]
    metrics: Callable[[], bytes]

    async def __call__(self, scope: dict[str, Any], receive: object, send: Send) -> None:
        path = scope["path"]
        if path == "/metrics":
            await _answer(send, 200, self.metrics(), CONTENT_TYPE)
        elif path in ALIVE:
            await _answer(send, 200, b'{"status":"alive"}')
        else:
            degraded = dict(self.degraded())
            ready = self.ready()
            word = ("degraded" if degraded else "ready") if ready else "draining"
            body = msgspec.json.encode({"status": word, "degraded": degraded})
            await _answer(send, 200 if ready else 503, body)


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
