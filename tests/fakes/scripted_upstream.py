"""The scripts in process: an ``Upstream`` and ``Prober`` without a socket, for virtual time.

Replicas are named by slug. Failures are the errors that the product's own tables define, so a test
in virtual time sees what a test over a socket sees.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType

from gateway.replicas.upstream import AttemptTimeouts, PlainAnswer, ReplicaTarget
from gateway.replicas.upstream_errors import (
    Phase,
    error_for_encoding,
    error_for_exception,
    error_for_plain_answer,
    error_for_status,
)
from tests.fakes import scripts
from tests.fakes.scripts import Cut, Hang, Script, Send, Step, Wait, tokens


@dataclass(eq=False)
class Attempt:
    """One attempt as the replica saw it. ``closed_early``: left before the end of the script."""

    slug: str
    path: str
    body: bytes
    headers: Mapping[str, str]
    started_at_s: float
    entered: bool = False
    left_at_s: float | None = None
    closed_early: bool = False
    sent_bytes: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)


class ScriptedUpstream:
    """``say(slug, …)`` queues answers of one replica; ``default`` answers when none is queued (a
    script, or a function of the target and the body)."""

    def __init__(
        self, default: Script | Callable[[ReplicaTarget, bytes], Script] | None = None
    ) -> None:
        self.default = default or tokens(3)
        self.always: dict[str, Script] = {}  # by slug, after its queue
        self.routes: dict[tuple[str, str], Script] = {}  # (slug, path) -> answer to a GET
        self.attempts: list[Attempt] = []
        self.gets: list[tuple[str, str]] = []
        self._queues: dict[str, deque[Script]] = {}

    def say(self, slug: str, *scripts: Script) -> None:
        self._queues.setdefault(slug, deque()).extend(scripts)

    def forget_said(self) -> None:
        """What was queued and never asked for."""
        self._queues.clear()

    @property
    def open_attempts(self) -> int:
        return sum(each.entered and each.left_at_s is None for each in self.attempts)

    def stream(
        self,
        target: ReplicaTarget,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        timeouts: AttemptTimeouts,
    ) -> _Play:
        now_s = asyncio.get_running_loop().time()
        attempt = Attempt(target.slug, path, body, headers, now_s)
        self.attempts.append(attempt)
        return _Play(self._script(target, body), attempt, timeouts)

    async def get(
        self, target: ReplicaTarget, path: str, *, timeout_s: float, max_bytes: int
    ) -> PlainAnswer:
        self.gets.append((target.slug, path))
        usual = scripts.metrics() if path == "/metrics" else scripts.HEALTHY
        script = self.routes.get((target.slug, path), usual)
        try:
            async with asyncio.timeout(timeout_s):
                await _before_headers(script)
                body = b"".join([data async for data in _body(script.steps)])
        except (TimeoutError, OSError) as error:
            raise error_for_exception(error, Phase.HEADERS) from error
        return PlainAnswer(script.status, body[:max_bytes])

    async def post(
        self, target: ReplicaTarget, path: str, body: bytes, *, timeout_s: float, max_bytes: int
    ) -> PlainAnswer:
        """As a GET of that path: ``routes`` answers."""
        return await self.get(target, path, timeout_s=timeout_s, max_bytes=max_bytes)

    def _script(self, target: ReplicaTarget, body: bytes) -> Script:
        queue = self._queues.get(target.slug)
        if queue:
            return queue.popleft()
        if target.slug in self.always:
            return self.always[target.slug]
        return self.default if isinstance(self.default, Script) else self.default(target, body)


class _Play:
    def __init__(self, script: Script, attempt: Attempt, timeouts: AttemptTimeouts) -> None:
        self._script = script
        self._attempt = attempt
        self._timeouts = timeouts
        self._ended = False
        self._chunks = self._said()
        self.status = script.status
        self.headers_at_s = 0.0

    async def __aenter__(self) -> _Play:
        self._attempt.entered = True
        try:
            async with asyncio.timeout(self._timeouts.headers_s):
                await _before_headers(self._script)
            self._refuse_unless_accepted()
        except (TimeoutError, OSError) as error:
            self._leave()
            raise error_for_exception(error, Phase.HEADERS) from error
        except BaseException:
            self._leave()
            raise
        self.headers_at_s = asyncio.get_running_loop().time()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()

    async def relay(self, take: Callable[[bytes], bool]) -> bool:
        async for chunk in self._chunks:
            if not take(chunk):
                return True
        return False

    async def _said(self) -> AsyncIterator[bytes]:
        pieces = _body(self._script.steps)
        try:
            while True:
                async with asyncio.timeout(self._timeouts.idle_s):
                    data = await anext(pieces, None)
                if data is None:
                    break
                self._attempt.sent_bytes += len(data)
                yield data
        except (TimeoutError, OSError) as error:
            raise error_for_exception(error, Phase.BODY) from error
        self._ended = True

    def _leave(self) -> None:
        self._attempt.closed_early = not self._ended
        self._attempt.left_at_s = asyncio.get_running_loop().time()
        self._attempt.left.set()

    def _refuse_unless_accepted(self) -> None:
        headers = {name.lower(): value for name, value in self._script.headers}
        body = b"".join(_sent(self._script.steps))
        if headers.get("content-encoding", "identity") != "identity":
            raise error_for_encoding()
        if not 200 <= self.status < 300:
            raise error_for_status(self.status, body, headers.get("retry-after"))
        accepted = self._attempt.headers.get("accept", "text/event-stream")
        if headers.get("content-type") != accepted:
            raise error_for_plain_answer(headers.get("content-type", ""), body)


def _sent(steps: tuple[Step, ...]) -> Iterator[bytes]:
    return (step.data for step in steps if isinstance(step, Send))


async def _before_headers(script: Script) -> None:
    if script.refused:
        raise ConnectionRefusedError
    async for _ in _body(script.headers_after):
        pass


async def _body(steps: tuple[Step, ...]) -> AsyncIterator[bytes]:
    for step in steps:
        match step:
            case Send(data):
                yield data
            case Wait(seconds):
                await asyncio.sleep(seconds)
            case Hang():
                await asyncio.Event().wait()
            case Cut():
                raise ConnectionResetError
