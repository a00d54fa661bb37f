"""Attempts and probes over aiohttp, with one connection pool per replica object.

A hung replica can exhaust only its own pool, which has no limit of its own: the scheduler bounds
what is in flight. Redirects are not followed, proxies of the environment are not used, cookies
are not kept, nothing is decompressed, and an answer that is encoded anyway is refused. Each
socket is made for an address at which a replica may be: a name that has come to mean another one
after it was checked leads nowhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import ipaddress
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.connector import AddrInfoType

from gateway.core.errors import UpstreamError
from gateway.core.reasons import Reason
from gateway.replicas.adapters import adapter_of
from gateway.replicas.upstream import (
    MAX_ERROR_BODY_BYTES,
    AttemptTimeouts,
    PlainAnswer,
    ReplicaTarget,
)
from gateway.replicas.upstream_errors import (
    FOREIGN,
    Phase,
    error_for_encoding,
    error_for_exception,
    error_for_plain_answer,
    error_for_status,
)
from gateway.services.addresses import is_allowed
from gateway.wire.headers import EVENT_STREAM

READ_BUFFER_BYTES = 64 * 1024  # reading pauses at twice as much
WRITE_AT_ONCE_BYTES = 256 * 1024
KEEP_ALIVE_S = 4.0  # servers close idle connections after 5 s
ERROR_BODY_S = 3.0  # an error body that takes longer is cut


class AiohttpUpstream:
    """An ``Upstream`` and a ``Prober``. Must be closed on the loop it was used on. ``networks``: as
    in ``gateway.services.addresses``; ``resolver`` None: the operating system's."""

    def __init__(
        self, networks: Sequence[str], *, resolver: AbstractResolver | None = None
    ) -> None:
        self._networks = networks
        self._resolver = resolver
        self._sessions: dict[tuple[str, str, int], aiohttp.ClientSession] = {}

    def stream(
        self,
        target: ReplicaTarget,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        timeouts: AttemptTimeouts,
    ) -> _Attempt:
        sent = dict(headers)
        sent.update(_credentials(target))
        sent["Content-Type"] = "application/json"
        sent["Accept"] = sent.pop("accept", EVENT_STREAM)
        if adapter_of(target.kind).closes_after_stream:
            sent["Connection"] = "close"
        return _Attempt(self._session(target), target.base_url + path, body, sent, timeouts)

    async def get(
        self, target: ReplicaTarget, path: str, *, timeout_s: float, max_bytes: int
    ) -> PlainAnswer:
        return await self._ask(target, "GET", path, None, timeout_s, max_bytes)

    async def post(
        self, target: ReplicaTarget, path: str, body: bytes, *, timeout_s: float, max_bytes: int
    ) -> PlainAnswer:
        """JSON that is no call: nothing is generated and nothing is streamed."""
        return await self._ask(target, "POST", path, body, timeout_s, max_bytes)

    async def _ask(
        self,
        target: ReplicaTarget,
        method: str,
        path: str,
        body: bytes | None,
        timeout_s: float,
        max_bytes: int,
    ) -> PlainAnswer:
        headers = dict(_credentials(target))
        if body is not None:
            headers["content-type"] = "application/json"
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session(target).request(
                    method,
                    target.base_url + path,
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                ) as response,
            ):
                answer = await _read_up_to(response, max_bytes + 1)
        except FOREIGN as error:
            raise error_for_exception(error, Phase.HEADERS) from error
        if len(answer) > max_bytes:
            raise UpstreamError(Reason.UPSTREAM_ERROR, "The replica's answer is too long.")
        return PlainAnswer(response.status, answer)

    async def forget(self, target: ReplicaTarget) -> None:
        """Closes the pool of a replica that was removed; its running attempts end with an error."""
        session = self._sessions.pop(_object_key(target), None)
        if session is not None:
            await session.close()

    async def close(self) -> None:
        sessions = list(self._sessions.values())
        self._sessions.clear()
        for session in sessions:
            await session.close()

    def _session(self, target: ReplicaTarget) -> aiohttp.ClientSession:
        key = _object_key(target)
        session = self._sessions.get(key)
        if session is None:
            one_shot = adapter_of(target.kind).closes_after_stream
            session = self._sessions[key] = _new_session(self._connector(one_shot))
        return session

    def _connector(self, one_shot: bool) -> aiohttp.TCPConnector:
        """``one_shot``: no connection is used twice, whatever the server announces."""
        return aiohttp.TCPConnector(
            limit=0,
            force_close=one_shot,
            keepalive_timeout=None if one_shot else KEEP_ALIVE_S,
            resolver=self._resolver,
            socket_factory=self._socket,
        )

    def _socket(self, info: AddrInfoType) -> socket.socket:
        """Raises PermissionError for an address at which no replica may be."""
        family, kind, protocol, _, (host, *_) = info
        if not is_allowed(ipaddress.ip_address(str(host).partition("%")[0]), self._networks):
            raise PermissionError(errno.EACCES, "no replica may be at this address")
        return socket.socket(family, kind, protocol)


class _Attempt:
    """The context manager of one attempt, and its stream once the headers have arrived."""

    __slots__ = (
        "_body",
        "_ended",
        "_headers",
        "_response",
        "_session",
        "_timeouts",
        "_url",
        "headers_at_s",
    )

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        body: bytes,
        headers: dict[str, str],
        timeouts: AttemptTimeouts,
    ) -> None:
        self._session = session
        self._url = url
        self._body = body
        self._headers = headers
        self._timeouts = timeouts
        self._response: aiohttp.ClientResponse
        self._ended = False
        self.headers_at_s = 0.0

    @property
    def status(self) -> int:
        return self._response.status

    async def __aenter__(self) -> _Attempt:
        try:
            async with asyncio.timeout(self._timeouts.headers_s):
                self._response = await self._session.post(
                    self._url,
                    data=_in_pieces(self._body),
                    headers=self._headers,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(sock_connect=self._timeouts.connect_s),
                )
        except FOREIGN as error:
            raise error_for_exception(error, Phase.HEADERS) from error
        self.headers_at_s = asyncio.get_running_loop().time()
        with contextlib.ExitStack() as undo:
            undo.callback(self._response.close)
            await self._refuse_unless_accepted()
            undo.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._ended:
            self._response.close()

    async def chunks(self) -> AsyncIterator[bytes]:
        content = self._response.content
        try:
            while True:
                async with asyncio.timeout(self._timeouts.idle_s):
                    chunk = await content.readany()
                if not chunk:
                    break
                yield chunk
        except FOREIGN as error:
            raise error_for_exception(error, Phase.BODY) from error
        self._ended = True

    async def _refuse_unless_accepted(self) -> None:
        response = self._response
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise error_for_encoding()
        if 200 <= response.status < 300 and response.content_type == self._headers["Accept"]:
            return
        try:
            async with asyncio.timeout(ERROR_BODY_S):
                body = await _read_up_to(response, MAX_ERROR_BODY_BYTES)
        except FOREIGN:
            body = b""  # the status says enough
        if 200 <= response.status < 300:
            raise error_for_plain_answer(response.content_type, body)
        raise error_for_status(response.status, body, response.headers.get("Retry-After"))


def _in_pieces(body: bytes) -> bytes | io.BytesIO:
    """A long body is written piece by piece, so that the loop serves others between them."""
    return body if len(body) <= WRITE_AT_ONCE_BYTES else io.BytesIO(body)


async def _read_up_to(response: aiohttp.ClientResponse, limit_bytes: int) -> bytes:
    parts = bytearray()
    while len(parts) < limit_bytes:
        part = await response.content.readany()
        if not part:
            break
        parts += part
    return bytes(parts[:limit_bytes])


def _object_key(target: ReplicaTarget) -> tuple[str, str, int]:
    return target.pool, target.slug, target.serial


def _credentials(target: ReplicaTarget) -> dict[str, str]:
    headers = {"Accept-Encoding": "identity"}
    if target.api_key:
        headers["Authorization"] = f"Bearer {target.api_key}"
    return headers


def _new_session(connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        auto_decompress=False,
        trust_env=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=READ_BUFFER_BYTES,
        skip_auto_headers=("User-Agent",),
        timeout=aiohttp.ClientTimeout(),
    )
