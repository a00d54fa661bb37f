"""Attempts and probes over HTTP/1.1, with one pool of connections per replica object.

A hung replica can exhaust only its own pool, which has no limit of its own: the scheduler bounds
what is in flight. Redirects are not followed, proxies of the environment are not used, cookies
are not kept, nothing is decompressed, and an answer that is encoded anyway is refused. Each
socket is made for an address at which a replica may be. No request is sent twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from httptools import HttpParserError, HttpParserUpgrade

from gateway.core.errors import UpstreamError
from gateway.core.reasons import Reason
from gateway.replicas.http1.connection import Connection, NotHttp, Take
from gateway.replicas.http1.dialing import Dialer, Resolve
from gateway.replicas.http1.pool import Pool
from gateway.replicas.http1.request import is_encoded, media_type, request_head
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
from gateway.wire.headers import EVENT_STREAM, JSON

ERROR_BODY_S = 3.0  # an error body that takes longer is cut
POSTED = {"content-type": JSON}
OF_A_BODY = (HttpParserError, HttpParserUpgrade, NotHttp, OSError)  # else it is a fault of ours


class HttpUpstream:
    """An ``Upstream`` and a ``Prober``. Must be closed on the loop it was used on. ``networks``: as
    in ``gateway.services.addresses``; ``resolve`` None: the operating system's."""

    def __init__(self, networks: Sequence[str], *, resolve: Resolve | None = None) -> None:
        self._dialer = Dialer(networks, resolve)
        self._pools: dict[tuple[str, str, int], Pool] = {}

    def stream(
        self,
        target: ReplicaTarget,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        timeouts: AttemptTimeouts,
    ) -> _Attempt:
        return _Attempt(self.pool, (target, path, body, headers), timeouts)

    async def get(
        self, target: ReplicaTarget, path: str, *, timeout_s: float, max_bytes: int
    ) -> PlainAnswer:
        return await self._ask(target, f"GET {path}", None, timeout_s, max_bytes)

    async def post(
        self, target: ReplicaTarget, path: str, body: bytes, *, timeout_s: float, max_bytes: int
    ) -> PlainAnswer:
        """JSON that is no call: nothing is generated and nothing is streamed."""
        return await self._ask(target, f"POST {path}", body, timeout_s, max_bytes)

    async def _ask(
        self,
        target: ReplicaTarget,
        start: str,
        body: bytes | None,
        timeout_s: float,
        max_bytes: int,
    ) -> PlainAnswer:
        phase = Phase.CONNECT
        try:
            async with asyncio.timeout(timeout_s):
                pool = self.pool(target)
                connection = pool.kept() or await pool.dialed(timeout_s)
                phase = Phase.HEADERS
                try:
                    fields = pool.fields | ({} if body is None else POSTED)
                    head = request_head(start, fields, None if body is None else len(body))
                    until_s = asyncio.get_running_loop().time() + timeout_s
                    await connection.ask(head, body or b"", until_s)
                    answer = await read_up_to(connection, max_bytes + 1, timeout_s)
                finally:
                    pool.give_back(connection)
        except TimeoutError as late:
            raise error_for_exception(late, Phase.HEADERS) from late
        except FOREIGN as error:
            raise error_for_exception(error, phase) from error
        if len(answer) > max_bytes:
            raise UpstreamError(Reason.UPSTREAM_ERROR, "The replica's answer is too long.")
        return PlainAnswer(connection.status, answer)

    async def forget(self, target: ReplicaTarget) -> None:
        """Closes the pool of a replica that was removed; its running attempts end with an error."""
        pool = self._pools.pop(_object_key(target), None)
        if pool is not None:
            pool.close()

    async def close(self) -> None:
        pools = list(self._pools.values())
        self._pools.clear()
        for pool in pools:
            pool.close()

    def pool(self, target: ReplicaTarget) -> Pool:
        """Raises ValueError for a target whose URL is none."""
        key = _object_key(target)
        pool = self._pools.get(key)
        if pool is None or (pool.target is not target and pool.target != target):
            pool = self._pools[key] = Pool(target, self._dialer)
        return pool


_Post = tuple[ReplicaTarget, str, bytes, Mapping[str, str]]  # where to, path, body, headers


class _Attempt:
    """The context manager of one attempt, and its stream once the headers have arrived."""

    __slots__ = ("_connection", "_pool", "_pool_of", "_post", "_timeouts", "headers_at_s")

    def __init__(
        self, pool_of: Callable[[ReplicaTarget], Pool], post: _Post, timeouts: AttemptTimeouts
    ) -> None:
        self._pool_of = pool_of
        self._post = post
        self._timeouts = timeouts
        self._pool: Pool
        self._connection: Connection
        self.headers_at_s = 0.0

    @property
    def status(self) -> int:
        return self._connection.status

    async def __aenter__(self) -> _Attempt:
        limits, (target, path, body, headers) = self._timeouts, self._post
        loop = asyncio.get_running_loop()
        until_s = loop.time() + limits.headers_s
        phase = Phase.CONNECT
        try:
            self._pool = pool = self._pool_of(target)
            connection = pool.kept()
            if connection is None:
                connection = await pool.dialed(min(limits.connect_s, limits.headers_s))
            self._connection = connection
            phase = Phase.HEADERS
            accept = headers.get("accept", EVENT_STREAM)
            try:
                fields = {**pool.fields, "accept": accept, **headers, **POSTED}
                head = request_head(f"POST {path}", fields, len(body))
                await connection.ask(head, body, until_s)
                self.headers_at_s = loop.time()
                if not is_plain(connection, accept):
                    await self._refuse()
            except BaseException:
                connection.abort()
                raise
        except FOREIGN as error:
            raise error_for_exception(error, phase) from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.give_back(self._connection)

    async def relay(self, take: Take) -> bool:
        try:
            return await self._connection.relay(take, self._timeouts.idle_s)
        except OF_A_BODY as error:
            raise error_for_exception(error, Phase.BODY) from error

    async def _refuse(self) -> None:
        """Raises what an answer means that is not the one that was asked for."""
        connection = self._connection
        if is_encoded(connection.headers):
            raise error_for_encoding()
        try:
            async with asyncio.timeout(ERROR_BODY_S):
                body = await read_up_to(connection, MAX_ERROR_BODY_BYTES, ERROR_BODY_S)
        except FOREIGN:
            body = b""  # the status says enough
        if 200 <= connection.status < 300:
            raise error_for_plain_answer(media_type(connection.headers), body)
        retry_after = connection.headers.get(b"retry-after", b"").decode("latin-1")
        raise error_for_status(connection.status, body, retry_after)


def is_plain(connection: Connection, accept: str) -> bool:
    """A good answer of the media type ``accept``, in no encoding."""
    headers = connection.headers
    is_good = 200 <= connection.status < 300 and media_type(headers) == accept
    return is_good and not is_encoded(headers)


async def read_up_to(connection: Connection, limit_bytes: int, idle_s: float) -> bytes:
    parts = bytearray()
    while len(parts) < limit_bytes and (part := await connection.read(idle_s)):
        parts += part
    return bytes(parts[:limit_bytes])


def _object_key(target: ReplicaTarget) -> tuple[str, str, int]:
    return target.pool, target.slug, target.serial
