"""The callers of the bench: plain sockets, kept alive, as little work as possible. Seconds."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PATH = "/v1/chat/completions"
PROMPT_BYTES = 8_192
WHOLE_TOKENS = 16
STREAM_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Target:
    port: int
    headers: Mapping[str, str]
    model: str


@dataclass(frozen=True, slots=True)
class Took:
    """To the first byte of the body that says something, and to the end."""

    first_s: float
    whole_s: float


class Caller:
    """One connection."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def call(self, *, stream: bool, number: int) -> Took:
        """Raises RuntimeError for an answer that is not 200 or does not say what it should."""
        if self._writer is None or self._writer.is_closing():
            self._reader, self._writer = await asyncio.open_connection(
                "127.0.0.1", self._target.port
            )
        assert self._reader is not None
        began_s = time.perf_counter()
        self._writer.write(request(self._target, stream=stream, number=number))
        head = await self._reader.readuntil(b"\r\n\r\n")
        body, first_s = await _body(self._reader, head.lower())
        ended_s = time.perf_counter()
        wanted = b"[DONE]" if stream else b'"completion_tokens"'
        if not head.startswith(b"HTTP/1.1 200") or wanted not in body:
            raise RuntimeError((head + body)[:600].decode(errors="replace"))
        if b"connection: close" in head.lower():
            self.close()
        return Took(first_s - began_s, ended_s - began_s)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def request(target: Target, *, stream: bool, number: int) -> bytes:
    words = f"{number:08d} " + "The quick brown fox jumps. " * (PROMPT_BYTES // 27)
    asked: dict[str, Any] = {
        "model": target.model,
        "messages": [{"role": "user", "content": words[:PROMPT_BYTES]}],
        "max_tokens": STREAM_TOKENS if stream else WHOLE_TOKENS,
    }
    if stream:
        asked["stream"] = True
    body = json.dumps(asked).encode()
    fields = {"Host": "127.0.0.1", "Content-Type": "application/json", **target.headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {PATH} HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _body(reader: asyncio.StreamReader, head: bytes) -> tuple[bytes, float]:
    """And when its first bytes came."""
    if b"transfer-encoding: chunked" not in head:
        length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        body = await reader.readexactly(length)
        return body, time.perf_counter()
    parts, first_s = [], 0.0
    while size := int(await reader.readuntil(b"\r\n"), 16):
        parts.append((await reader.readexactly(size + 2))[:-2])
        if not first_s and b'"content"' in parts[-1]:
            first_s = time.perf_counter()
    await reader.readexactly(2)
    return b"".join(parts), first_s


async def calls(target: Target, number: int, *, at_once: int) -> list[Took]:
    """``number`` whole answers, ``at_once`` at a time."""
    numbers = iter(range(number))

    async def caller() -> list[Took]:
        connection = Caller(target)
        took = [await connection.call(stream=False, number=one) for one in numbers]
        connection.close()
        return took

    told = await asyncio.gather(*(caller() for _ in range(at_once)))
    return [one for of_caller in told for one in of_caller]


async def streams(target: Target, number: int) -> list[Took]:
    """All at the same time."""

    async def caller(one: int) -> Took:
        connection = Caller(target)
        took = await connection.call(stream=True, number=one)
        connection.close()
        return took

    return list(await asyncio.gather(*(caller(one) for one in range(number))))
