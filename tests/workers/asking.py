"""Requests to an ASGI application in process, body and answer in pieces."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from config.asgi_types import Application
from tests.workers.test_multipart import KIND, form_body


@dataclass
class Answered:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str, str | None]:
        """Status, code and param of a refusal in the API's shape."""
        error = self.json["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return self.status, error["code"], error["param"]


@dataclass
class Asker:
    """``leaves`` ends the request before its body is complete."""

    application: Application
    key: str
    fairway: Any = None

    async def ask(
        self,
        method: str,
        path: str,
        pieces: Iterable[bytes] = (),
        *,
        leaves: bool = False,
        **headers: str,
    ) -> Answered:
        sent = {"authorization": f"Bearer {self.key}", "host": "testserver"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        scope: MutableMapping[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path.partition("?")[0],
            "raw_path": path.partition("?")[0].encode(),
            "query_string": path.partition("?")[2].encode(),
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
            "client": ("127.0.0.1", 5000),
            "server": ("testserver", 80),
            "fairway": self.fairway,
        }
        waiting = iter(pieces)
        answered = Answered()
        ended = False

        async def receive() -> MutableMapping[str, Any]:
            nonlocal ended
            if ended:
                await asyncio.Event().wait()  # the client stays
            piece = next(waiting, None)
            if piece is None and leaves:
                return {"type": "http.disconnect"}
            if piece is None:
                ended = True
                return {"type": "http.request"}
            return {"type": "http.request", "body": piece, "more_body": True}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                answered.status = message["status"]
                answered.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            else:
                answered.body += message.get("body", b"")

        await self.application(scope, receive, send)
        return answered

    async def post(self, path: str, body: Any = None) -> Answered:
        pieces = [] if body is None else [json.dumps(body).encode()]
        return await self.ask("POST", path, pieces, content_type="application/json")

    async def upload(
        self, content: bytes, *, purpose: str = "batch", filename: str = "a.jsonl", **fields: str
    ) -> Answered:
        parts = [("purpose", purpose.encode())]
        parts += [(f"expires_after[{name}]", value.encode()) for name, value in fields.items()]
        body = form_body(*parts, ("file", content), filename=filename)
        return await self.ask("POST", "/v1/files", [body], content_type=KIND)
