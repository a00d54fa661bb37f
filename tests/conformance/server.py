"""The server under test, called with nothing but HTTP: what it says is taken apart here, by the
rules of the standards and not by the code of any client or gateway."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

TIMEOUT = aiohttp.ClientTimeout(total=120)
ANTHROPIC = {"anthropic-version": "2023-06-01"}


class DeviationError(Exception):
    """What was found in place of what was expected."""


class CannotAskError(Exception):
    """Why the checks would say nothing of this server: in one line."""


def expect(condition: object, words: str) -> None:
    if not condition:
        raise DeviationError(words)


def expect_equal(found: object, wanted: object, what: str) -> None:
    expect(found == wanted, f"{what} is {short(found)}, expected {short(wanted)}")


def expect_kind(value: object, kind: type | tuple[type, ...], what: str) -> None:
    expect(
        isinstance(value, kind) and not (kind is int and isinstance(value, bool)),
        f"{what} is {short(value)}",
    )


@dataclass(frozen=True, slots=True)
class Event:
    """Of a stream of server-sent events. ``name``: "" where it has none."""

    name: str
    data: str

    def json(self) -> Any:
        try:
            return json.loads(self.data)
        except ValueError:
            raise DeviationError(f"an event's data is no JSON: {short(self.data)}") from None


@dataclass(frozen=True, slots=True)
class Answer:
    """``headers`` in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def json(self) -> Any:
        expect_equal(self.media_type, "application/json", "the content type")
        try:
            return json.loads(self.body)
        except ValueError:
            raise DeviationError(f"the body is no JSON: {short(self.body)}") from None

    def fine(self) -> Any:
        """Of a call that must succeed."""
        expect_equal(self.status, 200, f"the status ({short(self.body)})")
        return self.json()

    @property
    def error(self) -> tuple[object, str]:
        """Code and message, as far as it has them, in the form of any server."""
        try:
            told = json.loads(self.body)
        except ValueError:
            return None, ""
        error = told.get("error", told) if isinstance(told, dict) else told
        if isinstance(error, dict):
            return error.get("code"), str(error.get("message") or "")
        return None, str(error)

    def events(self) -> list[Event]:
        """Of a stream that must succeed."""
        expect_equal(self.status, 200, f"the status ({short(self.body)})")
        expect_equal(self.media_type, "text/event-stream", "the content type")
        try:
            text = self.body.decode().replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError as error:
            raise DeviationError(f"the stream is no UTF-8: {error}") from None
        expect(not text or text.endswith("\n\n"), "the stream ends in the middle of an event")
        events = map(_event, text.split("\n\n"))
        return [event for event in events if event.data]


@dataclass(slots=True)
class Server:
    """``url``: without /v1."""

    url: str
    key: str
    model: str
    embedding_model: str = ""
    _session: aiohttp.ClientSession | None = field(default=None, repr=False)

    async def __aenter__(self) -> Server:
        connector = aiohttp.TCPConnector(force_close=True)  # some servers close without a word
        self._session = aiohttp.ClientSession(timeout=TIMEOUT, connector=connector)
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """``body``: bytes as they are, anything else as JSON. ``key``: None = the right one, "" =
        none."""
        assert self._session is not None
        key = self.key if key is None else key
        sent = {"content-type": "application/json", **(headers or {})}
        if path.startswith("/v1/messages"):
            sent |= ANTHROPIC
        if key:
            sent["authorization"] = f"Bearer {key}"
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        async with self._session.request(
            method, self.url + path, data=content, headers=sent
        ) as answer:
            told = {name.lower(): value for name, value in answer.headers.items()}
            return Answer(answer.status, told, await answer.read())

    async def post(self, path: str, body: Any, **options: Any) -> Answer:
        return await self.call("POST", path, body, **options)


def _event(frame: str) -> Event:
    name, data = "", []
    for line in frame.split("\n"):
        kind, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if kind == "event":
            name = value
        elif kind == "data":
            data.append(value)
    return Event(name, "\n".join(data))


def short(value: object) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else repr(value)
    return text if len(text) <= 160 else text[:157] + "..."
