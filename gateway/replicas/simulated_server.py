"""A simulated replica behind HTTP: the engine model with vLLM's paths, errors and metric names.

Every answer says that it is simulated: in its text, in ``system_fingerprint``, in the list of
models and in a response header. Headers of a stream are sent at once, also when the call is
queued, as vLLM does. A client that goes away leaves the engine at once. Several replicas share
one process, each with its own engine.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
from aiohttp import web

from gateway.replicas.simulated_call import BUSY, Refusal, SimulatedCall
from gateway.replicas.simulated_choices import Choices, choices_of
from gateway.replicas.simulated_clock import EngineClock
from gateway.replicas.simulated_embeddings import parse_embeddings
from gateway.replicas.simulated_forms import COUNTS, FORMS, Form, Writer
from gateway.replicas.simulated_metrics import SimulatedMetrics
from gateway.simulation.engine import Emitted, Engine, EngineConfig

MAX_BODY_BYTES = 64 * 1024 * 1024
_HEADERS = {"X-Simulated-Replica": "true"}


class SimulatedReplica:
    def __init__(self, config: EngineConfig, model: str, speed: float = 1.0) -> None:
        self.engine = Engine(config)
        self.clock = EngineClock(self.engine, speed)
        self.metrics = SimulatedMetrics(self.engine, model)
        self._model = model
        self._numbers = itertools.count(1)

    def application(self) -> web.Application:
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        application.add_routes(
            [
                web.get("/health", self.health),
                web.get("/metrics", self.scrape),
                web.get("/v1/models", self.models),
                *(web.post(path, self.generate) for path in FORMS),
                web.post("/v1/embeddings", self.embeddings),
                *(web.post(path, self.count_tokens) for path in COUNTS),
            ]
        )
        return application

    async def health(self, request: web.Request) -> web.Response:
        return web.Response(headers=_HEADERS)

    async def scrape(self, request: web.Request) -> web.Response:
        return web.Response(body=self.metrics.text(), content_type="text/plain")

    async def models(self, request: web.Request) -> web.Response:
        entry = {
            "id": self._model,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "simulated",
            "max_model_len": self.engine.config.context_tokens,
        }
        return _json(msgspec.json.encode({"object": "list", "data": [entry]}))

    async def embeddings(self, request: web.Request) -> web.StreamResponse:
        request_id = f"embd-sim-{next(self._numbers)}"
        raw = await request.read()
        try:
            asked = parse_embeddings(raw, request_id, model=self._model, engine=self.engine)
            tokens = self.clock.submit(asked.request)
            if tokens is None:
                raise BUSY
            await tokens.get()
            return _json(asked.answer())
        except Refusal as refusal:
            return _json(refusal.body(), refusal.status)
        finally:
            self.clock.leave(request_id)

    async def count_tokens(self, request: web.Request) -> web.Response:
        """Takes no place in the engine."""
        count, told = COUNTS[request.path]
        raw = await request.read()
        try:
            return _json(count(raw, model=self._model, engine=self.engine))
        except Refusal as refusal:
            return _json(told(refusal), refusal.status)

    async def generate(self, request: web.Request) -> web.StreamResponse:
        form = FORMS[request.path]
        request_id = f"{form.prefix}-sim-{next(self._numbers)}"
        raw = await request.read()
        try:
            call = form.parse(raw, request_id, model=self._model, engine=self.engine)
            if call.others:
                return await self._tell_choices(request, call, choices_of(call))
            tokens = self.clock.submit(call.request)
            if tokens is None:
                raise BUSY
            return await self._tell(request, form, call, tokens)
        except Refusal as refusal:
            return _json(form.refusal(refusal), refusal.status)
        finally:
            self.clock.leave(request_id)

    async def _tell(
        self,
        request: web.Request,
        form: Form,
        call: SimulatedCall,
        tokens: asyncio.Queue[Emitted],
    ) -> web.StreamResponse:
        started_s = time.monotonic()
        writer = form.writer(call, int(time.time()))
        if not call.stream:
            first = emitted = await tokens.get()
            ttft_s = time.monotonic() - started_s
            while not emitted.last:
                emitted = await tokens.get()
            self.metrics.ended(ttft_s, time.monotonic() - started_s)
            return _json(writer.whole(first.cached_tokens))
        response = await _stream_begun(request)
        await self._stream(response, writer, tokens, started_s)
        await response.write_eof()
        return response

    async def _tell_choices(
        self, request: web.Request, call: SimulatedCall, choices: Choices
    ) -> web.StreamResponse:
        with choices.running(self.clock) as tokens:
            if not call.stream:
                return _json(await choices.whole(tokens))
            response = await _stream_begun(request)
            await choices.stream(response, tokens)
            await response.write_eof()
            return response

    async def _stream(
        self,
        response: web.StreamResponse,
        writer: Writer,
        tokens: asyncio.Queue[Emitted],
        started_s: float,
    ) -> None:
        emitted = await tokens.get()
        ttft_s = time.monotonic() - started_s
        text = writer.opening()
        while True:
            text += writer.token(emitted.number, emitted.cached_tokens)
            if emitted.last:
                break
            await response.write(text)
            emitted, text = await tokens.get(), b""
        self.metrics.ended(ttft_s, time.monotonic() - started_s)
        await response.write(text + writer.closing(emitted.number, emitted.cached_tokens))


@dataclass(frozen=True, slots=True)
class RunningReplica:
    replica: SimulatedReplica
    url: str


@asynccontextmanager
async def running(
    replica: SimulatedReplica, port: int = 0, host: str = "127.0.0.1"
) -> AsyncIterator[RunningReplica]:
    """Serves one replica; port 0 takes a free one. Leaving cuts what still streams."""
    runner = web.AppRunner(
        replica.application(), access_log=None, handler_cancellation=True, shutdown_timeout=0.1
    )
    await runner.setup()
    site = web.TCPSite(runner, host, port, backlog=2048)
    await site.start()
    steps = asyncio.create_task(replica.clock.run(), name="simulated engine")
    try:
        bound = runner.addresses[0][1]
        yield RunningReplica(replica, f"http://{host}:{bound}")
    finally:
        steps.cancel()
        await runner.cleanup()


async def _stream_begun(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(
        headers=_HEADERS | {"Content-Type": "text/event-stream; charset=utf-8"}
    )
    await response.prepare(request)
    return response


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json", headers=_HEADERS)
