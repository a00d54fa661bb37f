"""The chunked engine for large fleets: the schedule of ``engine.Engine``, without its cost.

A decode step there visits every running request. Here a request that decodes is touched only when
something happens to it: it needs or fills a KV block, a token of it is to be told, it ends. Each of
these moments is known as the number of a step, and waits in a heap. So
a step costs O(1) and what happens in it, and a minute of eight replicas with 100 sequences each
takes a fraction of a second.

Told are the first token, every ``tell_every``-th and the last. For the same input the two models
give the same tokens at the same times (a test compares them on random inputs). Rules, invariants
and units are those of ``engine.Engine``; ``step_tokens`` must be at least ``sequences``.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from gateway.simulation.block_cache import BlockCache
from gateway.simulation.engine import Emitted, EngineCounters, EngineRequest
from gateway.simulation.step_time import SequenceStep, StepModel, StepWork

_Moment = tuple[int, int, "_Sequence"]  # number of the step, number of the admission


@dataclass(frozen=True, slots=True)
class FleetConfig:
    """Defaults: the fleet of the project's scenarios. ``slowdown`` multiplies every step."""

    step: StepModel = SequenceStep()  # noqa: RUF009 (frozen)
    sequences: int = 256
    step_tokens: int = 8_192
    kv_tokens: int = 250_000
    block_tokens: int = 100
    slowdown: float = 1.0
    tell_every: int = 16


@dataclass(slots=True, eq=False)
class _Sequence:
    request: EngineRequest
    blocks: list[int] = field(default_factory=list)
    computed: int = 0  # tokens whose KV exists, when it last stopped or started to decode
    produced: int = 0  # tokens emitted, at the same moment
    cached: int = 0
    published: int = 0  # blocks
    admitted: bool = False
    number: int = 0  # of the admission
    decodes_since: int | None = None  # steps done when it started to decode

    @property
    def length(self) -> int:
        return self.request.prompt_tokens + self.produced


class FleetEngine:
    """Implements ``EngineModel``."""

    def __init__(self, config: FleetConfig) -> None:
        assert config.step_tokens >= config.sequences
        self.config = config
        self.counters = EngineCounters()
        self.cache = BlockCache(config.kv_tokens // config.block_tokens)
        self._running: dict[str, _Sequence] = {}
        self._waiting: OrderedDict[str, _Sequence] = OrderedDict()
        self._grows: list[_Moment] = []
        self._tells: list[_Moment] = []
        self._numbers = count()
        self._done = 0  # steps
        self._decoding = 0  # requests
        self._context = 0  # KV tokens of the requests that decode
        self._partial: _Sequence | None = None  # its prompt is not all computed
        self._chunks: list[tuple[_Sequence, int]] = []  # of the step that runs
        self._in_step = False

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def kv_ratio(self) -> float:
        return self.cache.used_ratio

    @property
    def in_step(self) -> bool:
        return self._in_step

    def submit(self, request: EngineRequest) -> bool:
        room = self.cache.total_blocks * self.config.block_tokens
        assert 0 < request.prompt_tokens + request.output_tokens <= room
        self._waiting[request.request_id] = _Sequence(request)
        return True

    def cancel(self, request_id: str) -> None:
        self._waiting.pop(request_id, None)
        sequence = self._running.pop(request_id, None)
        if sequence is not None:
            self._stop(sequence)

    def begin(self, now_s: float) -> float | None:
        assert not self._in_step
        if not self._running and not self._waiting:
            return None
        preempted = self._grow_due()
        self._chunks = self._next_chunks(may_admit=not preempted)
        if not self._chunks and not self._decoding:
            return None
        self._in_step = True
        duration_s = self.config.slowdown * self.config.step.step_s(self._work())
        self.counters.steps += 1
        self.counters.busy_s += duration_s
        return now_s + duration_s

    def complete(self) -> list[Emitted]:
        assert self._in_step
        self._in_step = False
        self._done += 1
        self._context += self._decoding
        emitted = self._tell_due()
        chunks, self._chunks = self._chunks, []
        for sequence, tokens in chunks:
            if sequence.request.request_id in self._running:
                emitted += self._chunk_done(sequence, tokens)
        return emitted

    # Requests that decode

    def _join(self, sequence: _Sequence) -> None:
        sequence.decodes_since = self._done
        self._decoding += 1
        self._context += sequence.computed
        room = len(sequence.blocks) * self.config.block_tokens - sequence.computed
        heapq.heappush(self._grows, (self._done + room + 1, sequence.number, sequence))
        self._plan_tell(sequence)

    def _plan_tell(self, sequence: _Sequence) -> None:
        """When it ends, a token is to be told or a block is full, whichever comes first."""
        produced, computed = self._produced(sequence), self._computed(sequence)
        until_end = sequence.request.output_tokens - produced
        until_tell = self.config.tell_every - produced % self.config.tell_every
        until_full = self.config.block_tokens - computed % self.config.block_tokens
        step = self._done + min(until_end, until_tell, until_full)
        heapq.heappush(self._tells, (step, sequence.number, sequence))

    def _tell_due(self) -> list[Emitted]:
        emitted = []
        for sequence in _due(self._tells, self._done):
            request, produced = sequence.request, self._produced(sequence)
            last = produced == request.output_tokens
            if last or produced % self.config.tell_every == 0:
                emitted.append(Emitted(request.request_id, produced, last, sequence.cached))
            self._publish(sequence, self._computed(sequence))
            if last:
                self._finish(sequence)
            else:
                self._plan_tell(sequence)
        return emitted

    def _grow_due(self) -> bool:
        """True: a request was preempted."""
        preempted = False
        for sequence in _due(self._grows, self._done + 1):
            while (blocks := self.cache.acquire((), 1)) is None:
                preempted = True
                if self._preempt_last() is sequence:
                    break
            else:
                sequence.blocks += blocks
                step = self._done + 1 + self.config.block_tokens
                heapq.heappush(self._grows, (step, sequence.number, sequence))
        return preempted

    def _produced(self, sequence: _Sequence) -> int:
        assert sequence.decodes_since is not None
        return sequence.produced + self._done - sequence.decodes_since

    def _computed(self, sequence: _Sequence) -> int:
        if sequence.decodes_since is None:
            return sequence.computed
        return sequence.computed + self._done - sequence.decodes_since

    # Prompts

    def _next_chunks(self, *, may_admit: bool) -> list[tuple[_Sequence, int]]:
        budget = self.config.step_tokens - self._decoding
        chunks: list[tuple[_Sequence, int]] = []
        partial = self._partial
        if partial is not None:
            tokens = min(partial.length - partial.computed, budget)
            needed = self._blocks(partial.computed + tokens) - len(partial.blocks)
            blocks = self.cache.acquire((), max(0, needed))
            if blocks is None:
                self._preempt_last()
                return chunks
            partial.blocks += blocks
            chunks.append((partial, tokens))
            budget -= tokens
        return [*chunks, *self._admit(budget)] if may_admit else chunks

    def _admit(self, budget: int) -> list[tuple[_Sequence, int]]:
        admitted = []
        while self._waiting and budget > 0 and self.running < self.config.sequences:
            sequence = next(iter(self._waiting.values()))
            reusable = (sequence.length - 1) // self.config.block_tokens
            matched = self.cache.match(sequence.request.block_hashes[:reusable])
            reused = len(matched) * self.config.block_tokens
            tokens = min(sequence.length - reused, budget)
            blocks = self.cache.acquire(matched, self._blocks(reused + tokens) - len(matched))
            if blocks is None:
                break
            self._start(sequence, blocks, reused)
            admitted.append((sequence, tokens))
            budget -= tokens
        return admitted

    def _start(self, sequence: _Sequence, blocks: list[int], reused: int) -> None:
        request_id = sequence.request.request_id
        self._running[request_id] = self._waiting.pop(request_id)
        sequence.number = next(self._numbers)
        sequence.blocks = blocks
        sequence.computed = reused
        sequence.published = reused // self.config.block_tokens
        if sequence.admitted:
            return
        sequence.admitted = True
        sequence.cached = reused
        self.counters.prompt_tokens += sequence.request.prompt_tokens
        self.counters.prefix_cache_queries += sequence.request.prompt_tokens
        self.counters.prefix_cache_hits += reused

    def _chunk_done(self, sequence: _Sequence, tokens: int) -> list[Emitted]:
        sequence.computed += tokens
        self._publish(sequence, sequence.computed)
        if sequence.computed < sequence.length:
            self._partial = sequence
            return []
        if self._partial is sequence:
            self._partial = None
        sequence.produced += 1
        request = sequence.request
        last = sequence.produced == request.output_tokens
        if last:
            self._finish(sequence)
        else:
            self._join(sequence)
        return [Emitted(request.request_id, sequence.produced, last, sequence.cached)]

    # Ends

    def _finish(self, sequence: _Sequence) -> None:
        del self._running[sequence.request.request_id]
        self._stop(sequence)
        self.counters.finished += 1
        self.counters.generation_tokens += sequence.produced

    def _preempt_last(self) -> _Sequence:
        request_id, sequence = self._running.popitem()
        self._stop(sequence)
        self._waiting[request_id] = sequence
        self._waiting.move_to_end(request_id, last=False)
        self.counters.preemptions += 1
        return sequence

    def _stop(self, sequence: _Sequence) -> None:
        """Its blocks are free, its moments void; what it emitted stays."""
        if sequence.decodes_since is not None:
            self._decoding -= 1
            self._context -= self._computed(sequence)
            sequence.produced = self._produced(sequence)
            sequence.decodes_since = None
        if self._partial is sequence:
            self._partial = None
        self.cache.release(sequence.blocks)
        sequence.blocks = []
        sequence.computed = 0
        sequence.published = 0
        sequence.number = -1

    def _publish(self, sequence: _Sequence, computed: int) -> None:
        hashes = sequence.request.block_hashes
        full = min(computed // self.config.block_tokens, len(hashes))
        for index in range(sequence.published, full):
            self.cache.publish(sequence.blocks[index], hashes[index])
        sequence.published = max(sequence.published, full)

    def _work(self) -> StepWork:
        kv_read, prefills, prefilled, pairs = self._context, 0, 0, 0.0
        for sequence, tokens in self._chunks:
            if tokens == 1:
                kv_read += sequence.computed
            else:
                pairs += tokens * (sequence.computed + tokens / 2)
            prefills += 1
            prefilled += tokens
        return StepWork(self._decoding, prefills, prefilled, kv_read, pairs)

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.config.block_tokens)


def _due(moments: list[_Moment], step: int) -> Iterator[_Sequence]:
    """Those planned for ``step``, by admission; what ended or was preempted meanwhile is void."""
    while moments and moments[0][0] <= step:
        _, number, sequence = heapq.heappop(moments)
        if sequence.number == number:
            yield sequence
