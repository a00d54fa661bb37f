"""Several choices of one request to a simulated replica, as vLLM makes them: each is a request of
its own to the engine, all are told in one answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec
from aiohttp import web

from gateway.replicas.simulated_answer import DONE, AnswerWriter, event
from gateway.replicas.simulated_call import BUSY, SimulatedCall
from gateway.replicas.simulated_clock import EngineClock
from gateway.simulation.engine import Emitted

Tokens = asyncio.Queue[Emitted]


class Choices:
    """Writes as one answer what the ``AnswerWriter`` of each choice writes of it alone."""

    def __init__(self, call: SimulatedCall, created_at: int) -> None:
        self._call = call
        self.calls = [replace(each, include_usage=False) for each in (call, *call.others)]
        self._writers = [AnswerWriter(each, created_at) for each in self.calls]

    @contextmanager
    def running(self, clock: EngineClock) -> Iterator[list[Tokens]]:
        """Raises Refusal."""
        try:
            yield [_submitted(each, clock) for each in self.calls]
        finally:
            for each in self.calls:
                clock.leave(each.request.request_id)

    async def whole(self, tokens: Sequence[Tokens]) -> bytes:
        cached = []
        for queue in tokens:
            while not (emitted := await queue.get()).last:
                pass
            cached.append(emitted.cached_tokens)
        told = [msgspec.json.decode(writer.whole(0)) for writer in self._writers]
        choices = [choice for each in told for choice in each["choices"]]
        return msgspec.json.encode(told[0] | {"choices": choices, "usage": self._usage(cached)})

    async def stream(self, response: web.StreamResponse, tokens: Sequence[Tokens]) -> None:
        """By turns, a token of each that has not ended."""
        cached = [0] * len(tokens)
        live = dict(enumerate(tokens))
        text = b"".join(writer.opening() for writer in self._writers)
        while live:
            for place, queue in list(live.items()):
                emitted, writer = await queue.get(), self._writers[place]
                cached[place] = emitted.cached_tokens
                text += writer.token(emitted.number, emitted.cached_tokens)
                if emitted.last:
                    end = writer.closing(emitted.number, emitted.cached_tokens)
                    text += end.removesuffix(DONE)
                    del live[place]
                await response.write(text)
                text = b""
        await response.write(self._end(cached))

    def _end(self, cached: Sequence[int]) -> bytes:
        if not self._call.include_usage:
            return DONE
        usage = self._usage(cached)
        return event(self._writers[0].envelope() | {"choices": [], "usage": usage}) + DONE

    def _usage(self, cached: Sequence[int]) -> dict[str, Any]:
        """A prompt counts once, whatever the number of its choices."""
        n = self._call.choices_per_prompt
        prompt_tokens = sum(each.request.prompt_tokens for each in self.calls[::n])
        completion_tokens = sum(len(each.answer) for each in self.calls)
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
            "prompt_tokens_details": {"cached_tokens": sum(cached[::n])},
        }


def choices_of(call: SimulatedCall) -> Choices:
    return Choices(call, int(time.time()))


def _submitted(call: SimulatedCall, clock: EngineClock) -> Tokens:
    tokens = clock.submit(call.request)
    if tokens is None:
        raise BUSY
    return tokens
