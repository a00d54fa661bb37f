"""When would a continuously batching engine emit each token? The chunked engine model (vLLM-like).

A step processes at most ``step_tokens`` tokens of at most ``sequences`` running requests: first
one token of each request that decodes, then prompt chunks, then requests from the first-come
queue. A request whose sequence is fully computed at the end of a step emits one token then.
Prompts reuse full KV blocks of equal prefixes. When no block is free, the request that was
admitted last is preempted: its KV is dropped, it goes to the head of the queue and is computed
again (its tokens are not emitted twice).

Pure: time is an argument (seconds), nothing sleeps. ``begin`` starts a step and says when it ends,
``complete`` ends it. The same object runs from an event heap and behind HTTP. Duration per step:
``step_time``. Not modelled: sampling cost, speculative decoding, CUDA graphs, network.

Invariants: running + waiting = accepted - finished - cancelled; blocks of requests that left are
idle.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.simulation.block_cache import BlockCache
from gateway.simulation.step_time import STEP_TIMES, StepTime


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Names in brackets are vLLM's. ``kv_tokens``: room for about 427,000 tokens of Llama-3-8B on
    an A100-80 at 0.9 utilisation."""

    step_time: StepTime = STEP_TIMES["a100-llama-3-8b"]
    sequences: int = 32  # max_num_seqs
    step_tokens: int = 2_048  # max_num_batched_tokens
    kv_tokens: int = 427_000
    block_tokens: int = 16  # block_size
    context_tokens: int = 32_768  # max_model_len
    queue_limit: int | None = None  # max_num_queued_reqs: waiting + running; None = unbounded


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """``block_hashes``: chained hashes of the full blocks of prompt and output, in order; may end
    anywhere (the rest is never shared). ``output_tokens`` is where it will stop, known to nobody
    else. ``client``: whose it is, for engines that schedule by client."""

    request_id: str
    prompt_tokens: int
    output_tokens: int
    block_hashes: tuple[int, ...] = ()
    client: str = ""


@dataclass(frozen=True, slots=True)
class Emitted:
    """One token of one request at the end of a step. ``number`` counts from 1."""

    request_id: str
    number: int
    last: bool
    cached_tokens: int


@dataclass(slots=True)
class EngineCounters:
    """Since start, named after the metrics of vLLM."""

    prompt_tokens: int = 0
    prefix_cache_queries: int = 0  # tokens
    prefix_cache_hits: int = 0  # tokens
    generation_tokens: int = 0
    preemptions: int = 0
    rejections: int = 0
    finished: int = 0
    steps: int = 0
    busy_s: float = 0.0


@dataclass(slots=True, eq=False)
class _Sequence:
    request: EngineRequest
    blocks: list[int] = field(default_factory=list)
    computed: int = 0  # tokens whose KV exists
    produced: int = 0  # tokens emitted
    cached: int = 0  # prompt tokens reused at the first admission
    published: int = 0  # blocks
    admitted: bool = False  # at least once

    @property
    def length(self) -> int:
        return self.request.prompt_tokens + self.produced

    @property
    def missing(self) -> int:
        return self.length - self.computed


class Engine:
    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.counters = EngineCounters()
        self.cache = BlockCache(config.kv_tokens // config.block_tokens)
        self._running: dict[str, _Sequence] = {}
        self._waiting: OrderedDict[str, _Sequence] = OrderedDict()
        self._step: list[tuple[_Sequence, int]] | None = None

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
        return self._step is not None

    def fits(self, prompt_tokens: int, output_tokens: int) -> bool:
        room = min(self.config.context_tokens, self.cache.total_blocks * self.config.block_tokens)
        return prompt_tokens + output_tokens <= room

    def submit(self, request: EngineRequest) -> bool:
        """False = the queue limit is reached. The request must fit and ask for at least one
        token."""
        assert request.prompt_tokens > 0
        assert request.output_tokens > 0
        assert self.fits(request.prompt_tokens, request.output_tokens)
        limit = self.config.queue_limit
        if limit is not None and self.running + self.waiting >= limit:
            self.counters.rejections += 1
            return False
        self._waiting[request.request_id] = _Sequence(request)
        return True

    def cancel(self, request_id: str) -> None:
        """The client has gone: out of the queue, or out of the batch with its blocks freed."""
        self._waiting.pop(request_id, None)
        sequence = self._running.pop(request_id, None)
        if sequence is not None:
            self._free(sequence)

    def begin(self, now_s: float) -> float | None:
        """Starts a step; the caller calls ``complete`` at the returned time. None = nothing to
        do."""
        assert self._step is None
        step = self._schedule()
        if not step:
            return None
        self._step = step
        duration_s = self._duration_s(step)
        self.counters.steps += 1
        self.counters.busy_s += duration_s
        return now_s + duration_s

    def complete(self) -> list[Emitted]:
        """Ends the step that ``begin`` started."""
        assert self._step is not None
        step, self._step = self._step, None
        emitted = []
        for sequence, tokens in step:
            if sequence.request.request_id not in self._running:
                continue  # cancelled or preempted meanwhile
            sequence.computed += tokens
            self._publish(sequence)
            if sequence.missing == 0:
                emitted.append(self._emit(sequence))
        return emitted

    def _schedule(self) -> list[tuple[_Sequence, int]]:
        budget = self.config.step_tokens
        step: list[tuple[_Sequence, int]] = []
        preempted = False
        for sequence in list(self._running.values()):
            tokens = min(sequence.missing, budget)
            if tokens == 0 or sequence.request.request_id not in self._running:
                continue
            while not self._grow(sequence, tokens):
                preempted = True
                if self._preempt_last() is sequence:
                    break
            else:
                step.append((sequence, tokens))
                budget -= tokens
        step = [one for one in step if one[0].request.request_id in self._running]
        return step if preempted else step + self._admit(budget)

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
        sequence.blocks = blocks
        sequence.computed = reused
        sequence.published = reused // self.config.block_tokens
        if not sequence.admitted:
            sequence.admitted = True
            sequence.cached = reused
            self.counters.prompt_tokens += sequence.request.prompt_tokens
            self.counters.prefix_cache_queries += sequence.request.prompt_tokens
            self.counters.prefix_cache_hits += reused

    def _grow(self, sequence: _Sequence, tokens: int) -> bool:
        needed = self._blocks(sequence.computed + tokens) - len(sequence.blocks)
        if needed <= 0:
            return True
        blocks = self.cache.acquire((), needed)
        if blocks is None:
            return False
        sequence.blocks += blocks
        return True

    def _preempt_last(self) -> _Sequence:
        request_id, sequence = self._running.popitem()
        self._free(sequence)
        self._waiting[request_id] = sequence
        self._waiting.move_to_end(request_id, last=False)
        self.counters.preemptions += 1
        return sequence

    def _free(self, sequence: _Sequence) -> None:
        self.cache.release(sequence.blocks)
        sequence.blocks = []
        sequence.computed = 0
        sequence.published = 0

    def _publish(self, sequence: _Sequence) -> None:
        hashes = sequence.request.block_hashes
        full = min(sequence.computed // self.config.block_tokens, len(hashes))
        for index in range(sequence.published, full):
            self.cache.publish(sequence.blocks[index], hashes[index])
        sequence.published = max(sequence.published, full)

    def _emit(self, sequence: _Sequence) -> Emitted:
        sequence.produced += 1
        self.counters.generation_tokens += 1
        request = sequence.request
        last = sequence.produced == request.output_tokens
        if last:
            del self._running[request.request_id]
            self._free(sequence)
            self.counters.finished += 1
        return Emitted(request.request_id, sequence.produced, last, sequence.cached)

    def _duration_s(self, step: Sequence[tuple[_Sequence, int]]) -> float:
        tokens, kv_read, pairs = 0, 0, 0.0
        for sequence, chunk in step:
            tokens += chunk
            if chunk == 1:
                kv_read += sequence.computed
            else:
                pairs += chunk * (sequence.computed + chunk / 2)
        return self.config.step_time.duration_s(tokens, kv_read, pairs)

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.config.block_tokens)
