"""When would a node that only prefills have a prompt's first token? The nodes of Mooncake.

One prompt after another, first come first served. Computing n new tokens behind c cached ones of a
model with L layers of width d takes

    L * (22 * d^2 * n + 4 * d * n * (2 * c + n)) / (FLOPS * MFU)

seconds: matrix products, and attention over every earlier token (Mooncake's own formula, written
for a prompt of which a part is cached). Whole blocks of earlier prompts are kept, least recently
used out first (the end of a chain before its beginning), up to ``kv_tokens``. The answer is one
token: decoding happens elsewhere. Units: tokens, seconds.

Defaults: a 70B Llama on eight A100 (312 TFLOPS each, dense bf16) at an assumed MFU of 0.5.
Source: Qin et al., "Mooncake" (FAST'25), figure 5; the node model is this project's, not a run on a
GPU.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.simulation.engine import Emitted, EngineCounters, EngineRequest


@dataclass(frozen=True, slots=True)
class PrefillNodeConfig:
    layers: int = 80
    width: int = 8_192
    flops: float = 8 * 312e12
    mfu: float = 0.5
    kv_tokens: int = 3_000_000
    block_tokens: int = 512

    def prefill_s(self, new_tokens: int, cached_tokens: int) -> float:
        products = 22 * self.width**2 * new_tokens
        attention = 4 * self.width * new_tokens * (2 * cached_tokens + new_tokens)
        return self.layers * (products + attention) / (self.flops * self.mfu)


class ChainCache:
    """Which blocks are kept. Matching is by leading blocks."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self._kept: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def match(self, hashes: Sequence[int]) -> int:
        """Leading blocks that are kept."""
        for number, block in enumerate(hashes):
            if block not in self._kept:
                return number
        return len(hashes)

    def keep(self, hashes: Sequence[int]) -> None:
        for block in reversed(hashes):
            self._kept[block] = None
            self._kept.move_to_end(block)
        while len(self._kept) > self._blocks:
            self._kept.popitem(last=False)


class PrefillNode:
    """Implements ``EngineModel``."""

    def __init__(self, config: PrefillNodeConfig) -> None:
        self.config = config
        self.counters = EngineCounters()
        self.cache = ChainCache(config.kv_tokens // config.block_tokens)
        self._queue: OrderedDict[str, EngineRequest] = OrderedDict()
        self._runs: EngineRequest | None = None
        self._cached_tokens = 0
        self._cancelled = False

    @property
    def running(self) -> int:
        return int(self._runs is not None)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def kv_ratio(self) -> float:
        return 0.0

    @property
    def in_step(self) -> bool:
        return self._runs is not None

    def submit(self, request: EngineRequest) -> bool:
        self._queue[request.request_id] = request
        return True

    def cancel(self, request_id: str) -> None:
        """One that is being computed is computed to its end, for nobody."""
        self._queue.pop(request_id, None)
        if self._runs is not None and self._runs.request_id == request_id:
            self._cancelled = True

    def begin(self, now_s: float) -> float | None:
        assert self._runs is None
        if not self._queue:
            return None
        _, request = self._queue.popitem(last=False)
        self._runs, self._cancelled = request, False
        reusable = (request.prompt_tokens - 1) // self.config.block_tokens
        matched = self.cache.match(request.block_hashes[:reusable])
        self._cached_tokens = matched * self.config.block_tokens
        self.counters.prefix_cache_queries += request.prompt_tokens
        self.counters.prefix_cache_hits += self._cached_tokens
        new_tokens = request.prompt_tokens - self._cached_tokens
        return now_s + self.config.prefill_s(new_tokens, self._cached_tokens)

    def complete(self) -> list[Emitted]:
        request, self._runs = self._runs, None
        assert request is not None
        self.cache.keep(request.block_hashes)
        self.counters.finished += 1
        if self._cancelled:
            return []
        return [Emitted(request.request_id, 1, True, self._cached_tokens)]
