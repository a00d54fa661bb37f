"""Simulated replicas in process: an ``Upstream`` and ``Prober`` without a socket, for virtual time.

The engine model, the parsing and the answers are those of the simulated server, so shares and times
of a scenario are what the server would show, exact and fast.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from gateway.replicas.simulated_answer import AnswerWriter
from gateway.replicas.simulated_call import Refusal, SimulatedCall, bad_request, parse
from gateway.replicas.simulated_clock import EngineClock
from gateway.replicas.simulated_metrics import SimulatedMetrics
from gateway.replicas.upstream import AttemptTimeouts, PlainAnswer, ReplicaTarget
from gateway.replicas.upstream_errors import error_for_status
from gateway.simulation.engine import Emitted, Engine, EngineConfig

MODEL = "sim"


class SimulatedUpstream:
    """One engine per replica slug. Use ``async with simulating(...) as upstream``."""

    def __init__(self, configs: Mapping[str, EngineConfig], model: str = MODEL) -> None:
        self._model = model
        self.engines = {slug: Engine(config) for slug, config in configs.items()}
        self.clocks = {slug: EngineClock(engine) for slug, engine in self.engines.items()}
        self._numbers = itertools.count(1)

    @asynccontextmanager
    async def stream(
        self,
        target: ReplicaTarget,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        timeouts: AttemptTimeouts,
    ) -> AsyncIterator[_Answer]:
        engine, clock = self.engines[target.slug], self.clocks[target.slug]
        request_id = f"sim-{next(self._numbers)}"
        try:
            chat = path.endswith("/chat/completions")
            call = parse(body, request_id, chat=chat, model=self._model, engine=engine)
            if call.others:
                raise bad_request("Several choices are made by the replica behind HTTP only.")
        except Refusal as refusal:
            raise error_for_status(refusal.status, refusal.body()) from refusal
        tokens = clock.submit(call.request)
        if tokens is None:
            raise error_for_status(503)
        try:
            yield _Answer(call, tokens)
        finally:
            clock.leave(request_id)

    async def get(
        self, target: ReplicaTarget, path: str, *, timeout_s: float, max_bytes: int
    ) -> PlainAnswer:
        if path != "/metrics":
            return PlainAnswer(200, b"")
        return PlainAnswer(200, SimulatedMetrics(self.engines[target.slug], self._model).text())

    async def post(
        self, target: ReplicaTarget, path: str, body: bytes, *, timeout_s: float, max_bytes: int
    ) -> PlainAnswer:
        return PlainAnswer(404, b"")

    async def forget(self, target: ReplicaTarget) -> None:
        """Nothing is kept per replica object."""


class _Answer:
    status = 200

    def __init__(self, call: SimulatedCall, tokens: asyncio.Queue[Emitted]) -> None:
        self.headers_at_s = asyncio.get_running_loop().time()
        self._writer = AnswerWriter(call, created_at=0)
        self._tokens = tokens
        self._chunks = self._said()

    async def relay(self, take: Callable[[bytes], bool]) -> bool:
        async for chunk in self._chunks:
            if not take(chunk):
                return True
        return False

    async def _said(self) -> AsyncIterator[bytes]:
        text = self._writer.opening()
        while True:
            emitted = await self._tokens.get()
            text += self._writer.token(emitted.number, emitted.cached_tokens)
            if emitted.last:
                break
            yield text
            text = b""
        yield text + self._writer.closing(emitted.number, emitted.cached_tokens)


@asynccontextmanager
async def simulating(
    configs: Mapping[str, EngineConfig], model: str = MODEL
) -> AsyncIterator[SimulatedUpstream]:
    """Runs one engine per slug until left."""
    upstream = SimulatedUpstream(configs, model)
    tasks = [
        asyncio.create_task(clock.run(), name=f"engine {slug}")
        for slug, clock in upstream.clocks.items()
    ]
    try:
        yield upstream
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
