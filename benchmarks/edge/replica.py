"""The replica of the bench: as cheap as possible, so that the proxy before it is what is measured.

    python -m benchmarks.edge.replica

Prints READY and its port. It answers every chat completion with ``max_tokens`` tokens: a whole
answer and a stream of fewer than ``PACED_TOKENS`` at once, a longer stream with a token every
20 ms.
"""

from __future__ import annotations

import asyncio
import re
import sys
from typing import cast

import uvloop

PACED_TOKENS = 64
PACE_S = 0.020
PROMPT_TOKENS = 2_000
MODEL = "bench"

_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_TOKENS = re.compile(rb'"max_tokens": *(\d+)')
_STREAM = re.compile(rb'"stream": *true')
_USAGE = re.compile(rb'"include_usage": *true')
_ID = b'"id":"chatcmpl-bench","created":1,"model":"bench"'


def usage(tokens: int) -> bytes:
    return b'"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}' % (
        PROMPT_TOKENS,
        tokens,
        PROMPT_TOKENS + tokens,
    )


def event(delta: bytes, finish: bytes = b"null") -> bytes:
    return (
        b'data: {%b,"object":"chat.completion.chunk","choices":[{"index":0,"delta":%b,'
        b'"finish_reason":%b}]}\n\n' % (_ID, delta, finish)
    )


def last_events(tokens: int, *, counted: bool) -> bytes:
    told = event(b"{}", b'"length"')
    if counted:
        told += b'data: {%b,"object":"chat.completion.chunk","choices":[],%b}\n\n' % (
            _ID,
            usage(tokens),
        )
    return told + b"data: [DONE]\n\n"


def whole(tokens: int) -> bytes:
    return (
        b'{%b,"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant",'
        b'"content":"%b"},"finish_reason":"length"}],%b}' % (_ID, b"word " * tokens, usage(tokens))
    )


class Connection(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        self._received = b""
        self._streams: set[asyncio.Task[None]] = set()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, rest = self._received.partition(b"\r\n\r\n")
        if not end:
            return
        length = _LENGTH.search(head)
        size = int(length[1]) if length else 0
        if len(rest) < size:
            return
        self._received = rest[size:]
        self._answer(head, rest[:size])

    def connection_lost(self, error: Exception | None) -> None:
        for task in self._streams:
            task.cancel()

    def _answer(self, head: bytes, body: bytes) -> None:
        if not head.startswith(b"POST"):
            self._tell(_page(head.split(b" ", 2)[1]))
            return
        found = _TOKENS.search(body)
        tokens = int(found[1]) if found else 1
        if not _STREAM.search(body):
            self._tell((200, b"application/json", whole(tokens)))
            return
        counted = bool(_USAGE.search(body))
        self._transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        if tokens < PACED_TOKENS:
            words = event(b'{"content":"word "}') * tokens
            self._chunk(words + last_events(tokens, counted=counted))
            self._transport.write(b"0\r\n\r\n")
        else:
            task = asyncio.create_task(self._stream(tokens, counted=counted), name="stream")
            self._streams.add(task)
            task.add_done_callback(self._streams.discard)

    async def _stream(self, tokens: int, *, counted: bool) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        for _ in range(tokens):
            self._chunk(event(b'{"content":"word "}'))
            due_s += PACE_S
            await asyncio.sleep(due_s - loop.time())
        self._chunk(last_events(tokens, counted=counted))
        self._transport.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _tell(self, answer: tuple[int, bytes, bytes]) -> None:
        status, kind, body = answer
        self._transport.write(
            b"HTTP/1.1 %d X\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b"
            % (status, kind, len(body), body)
        )


def _page(path: bytes) -> tuple[int, bytes, bytes]:
    if path == b"/v1/models":
        return 200, b"application/json", b'{"object":"list","data":[{"id":"bench"}]}'
    if path in (b"/health", b"/metrics"):
        return 200, b"text/plain", b""
    return 404, b"application/json", b"{}"


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0)
    sys.stdout.write(f"READY {server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve())
