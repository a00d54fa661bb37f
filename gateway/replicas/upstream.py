"""How does the gateway talk to one replica, whatever carries the bytes?

``Upstream.stream`` is one attempt: entering the context sends the request and returns once response
headers with a 2xx status and the media type that was asked for have arrived (``accept``, an event
stream where it says nothing); leaving it closes the connection at once unless the body had already
ended cleanly. Everything that can go wrong is an ``UpstreamError``.

Who watches the clock: an Upstream enforces ``connect_s``, ``headers_s`` and ``idle_s`` (bytes);
the caller, who alone knows what a frame means, enforces the time to first content, between
tokens, and in all. After ``[DONE]`` the caller reads on to the end of the body, so that the
connection is reused.

Units: seconds (monotonic clock of the running loop), bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

MAX_ERROR_BODY_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class ReplicaTarget:
    """Where one replica is. ``serial`` names the object: a replica that is removed and added again
    under the same slug gets a new one, hence a new connection pool and new counters."""

    slug: str
    pool: str
    kind: str  # a name in gateway.replicas.adapters.ADAPTERS
    base_url: str  # scheme, host, port; no path, no trailing slash
    upstream_model: str = ""
    api_key: str = field(default="", repr=False)
    serial: int = 0


@dataclass(frozen=True, slots=True)
class AttemptTimeouts:
    """Limits that the transport itself watches. ``headers_s`` counts from the start of the
    attempt: a llama.cpp server answers headers only when a slot is free, so it must not be
    shorter than the first-content limit of the class."""

    connect_s: float = 3.0
    headers_s: float = 300.0
    idle_s: float = 60.0  # without a single byte, comments included


class UpstreamStream(Protocol):
    """An answer whose headers have arrived."""

    @property
    def status(self) -> int: ...

    @property
    def headers_at_s(self) -> float:
        """Loop time at which the header block had been read."""
        ...

    async def relay(self, take: Callable[[bytes], bool]) -> bool:
        """Gives the raw body bytes to ``take`` in the moment in which they are read, any size,
        until it says False: then True. False is the clean end of the body. ``take`` must not wait
        and must not raise; nothing is given to it while nobody awaits this, and what comes then is
        held up to a bound, beyond which nothing is read.

        Raises ConnectionLost(UPSTREAM_INCOMPLETE) on a cut, UpstreamError(STREAM_STALLED) after
        ``idle_s``. A body that ends cleanly may still lack ``[DONE]``: the caller judges that.
        """
        ...


class Upstream(Protocol):
    def stream(
        self,
        target: ReplicaTarget,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        timeouts: AttemptTimeouts,
    ) -> AbstractAsyncContextManager[UpstreamStream]:
        """POSTs ``body`` to ``path`` (absolute, ``/v1/chat/completions``) of ``target``.

        ``headers`` have passed the gateway's allow-list, and ``accept`` among them says what the
        answer must be; content type, authorization and connection headers are set here. Entering
        raises ReplicaUnreachable (no byte was sent), ReplicaFull (its own 429 or 503),
        ConnectionLost, or another UpstreamError."""
        ...


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """A small answer read whole: a probe, a scrape."""

    status: int
    body: bytes


class Prober(Protocol):
    async def get(
        self, target: ReplicaTarget, path: str, *, timeout_s: float, max_bytes: int
    ) -> PlainAnswer:
        """GETs ``path``; any status is an answer. Raises UpstreamError when none came in time or
        it is longer than ``max_bytes``."""
        ...
