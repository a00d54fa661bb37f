"""The little HTTP that uploads and downloads need: headers, whole answers, refusals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

import msgspec

from gateway.core.errors import CallError
from gateway.wire.headers import decoded, encoded
from workers.refusals import refusal

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

SAFE_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class ClientGone(Exception):
    """The connection ended before the request did."""


def headers_of(scope: Scope) -> dict[str, str]:
    return decoded(scope["headers"])


def peer_of(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


async def begin(send: Send, status: int, headers: Mapping[str, str]) -> None:
    lines = encoded({**SAFE_HEADERS, **headers})
    await send({"type": "http.response.start", "status": status, "headers": lines})


async def answer(
    send: Send, status: int, body: bytes, headers: Mapping[str, str] | None = None
) -> None:
    about = {"content-type": "application/json", "content-length": str(len(body))}
    await begin(send, status, {**about, **(headers or {})})
    await send({"type": "http.response.body", "body": body})


async def answer_json(send: Send, value: Any) -> None:
    await answer(send, 200, msgspec.json.encode(value))


async def refuse(send: Send, error: CallError) -> None:
    """Closes the connection, whose request may be only half read."""
    told = refusal(error)
    await answer(send, told.status, told.body, {**told.headers, "connection": "close"})
