"""When would the engine of the OSDI'24 comparison emit each token? The S-LoRA loop.

Not chunked: a step is either one prefill of new requests, during which those that decode stand
still, or one decode step of the whole batch.

  admission  when the batch is empty, or 10 decode steps after the last admission and from then on
             before every step: heads of the queue are taken while they fit, at most
             ``prefill_tokens`` of prompts; the first that does not fit ends it
  fits       worst case: with every request running to its end, the KV tokens never exceed
             ``kv_tokens``
  prefill    4 ms + prompt tokens / 4,650 per second; each new request emits its first token
  decode     interpolated over the batch from the artifact's cost profile (A10G 24 GB, Llama-2-7B),
             times one scalar, 1.12, for all suites; each request emits one token

The scalar is the only fitted number. Units: tokens, seconds. Not modelled: LoRA, network, the
dependence of a decode step on the length of contexts (the profile was taken with full memory).

Sources: Sheng et al. (OSDI'24); its artifact's cost profile, Apache-2.0; kept within 10 % of the
throughput measured on the A10G.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gateway.simulation.engine import Emitted, EngineRequest
from gateway.simulation.engines.admission import FirstCome, Scheduler

DECODE_MS = ((1, 34.5), (19, 36.0), (31, 37.2), (52, 39.5), (78, 45.0), (138, 63.0), (303, 127.0))
_BATCHES = [batch for batch, _ in DECODE_MS]


@dataclass(frozen=True, slots=True)
class SloraConfig:
    kv_tokens: int = 10_000
    prefill_tokens: int = 3_072  # of one admission
    steps_between: int = 10
    sequences: int = 1_000
    prefill_tps: float = 4_650.0
    prefill_floor_s: float = 0.004
    decode_scalar: float = 1.12

    def prefill_s(self, tokens: int) -> float:
        return self.prefill_floor_s + tokens / self.prefill_tps

    def decode_s(self, batch: int) -> float:
        return self.decode_scalar * _interpolated_ms(batch) / 1e3


@dataclass(slots=True, eq=False)
class _Running:
    request: EngineRequest
    produced: int = 0


class SloraEngine:
    """Implements ``EngineModel``."""

    def __init__(self, config: SloraConfig, scheduler: Scheduler | None = None) -> None:
        self.config = config
        self._scheduler = FirstCome({}) if scheduler is None else scheduler
        self._batch: dict[str, _Running] = {}
        self._clients: Counter[str] = Counter()
        self._prefilled: list[_Running] | None = None  # of the step that runs
        self._decoding = False
        self._since_admission = 0

    @property
    def running(self) -> int:
        return len(self._batch) + len(self._prefilled or ())

    @property
    def waiting(self) -> int:
        return len(self._scheduler)

    @property
    def kv_ratio(self) -> float:
        used = sum(one.request.prompt_tokens + one.produced for one in self._batch.values())
        return used / self.config.kv_tokens

    @property
    def in_step(self) -> bool:
        return self._decoding or self._prefilled is not None

    def submit(self, request: EngineRequest) -> bool:
        assert self._fits([_Running(request)])
        self._scheduler.push(request)
        return True

    def cancel(self, request_id: str) -> None:
        self._scheduler.discard(request_id)
        self._leave(request_id)
        if self._prefilled is not None:
            self._prefilled = [
                one for one in self._prefilled if one.request.request_id != request_id
            ]

    def begin(self, now_s: float) -> float | None:
        assert not self.in_step
        if not self._batch or self._since_admission >= self.config.steps_between:
            admitted = self._admit()
            if admitted:
                self._prefilled = admitted
                tokens = sum(one.request.prompt_tokens for one in admitted)
                return now_s + self.config.prefill_s(tokens)
        if not self._batch:
            return None
        self._decoding = True
        self._scheduler.decoding(self._clients)
        return now_s + self.config.decode_s(len(self._batch))

    def complete(self) -> list[Emitted]:
        assert self.in_step
        admitted, self._prefilled = self._prefilled, None
        if admitted is not None:
            self._since_admission = 0
            for one in admitted:
                self._batch[one.request.request_id] = one
                self._clients[one.request.client] += 1
            return self._emit(admitted)
        self._decoding = False
        self._since_admission += 1
        return self._emit(list(self._batch.values()))

    def _emit(self, those: Iterable[_Running]) -> list[Emitted]:
        emitted = []
        for one in those:
            one.produced += 1
            last = one.produced == one.request.output_tokens
            emitted.append(Emitted(one.request.request_id, one.produced, last, 0))
            if last:
                self._leave(one.request.request_id)
        return emitted

    def _leave(self, request_id: str) -> None:
        one = self._batch.pop(request_id, None)
        if one is None:
            return
        self._clients[one.request.client] -= 1
        if not self._clients[one.request.client]:
            del self._clients[one.request.client]

    def _admit(self) -> list[_Running]:
        admitted: list[_Running] = []
        tokens = 0
        while (head := self._scheduler.head()) is not None:
            one = _Running(head)
            tokens += head.prompt_tokens
            over = tokens > self.config.prefill_tokens and bool(admitted)
            if over or not self._fits([*self._batch.values(), *admitted, one]):
                break
            self._scheduler.admit(head)
            admitted.append(one)
        return admitted

    def _fits(self, those: list[_Running]) -> bool:
        """Sorted by what is left to emit, longest first: when the i-th ends, the i before it still
        hold all that they have and as many more tokens as it had left."""
        if len(those) > self.config.sequences:
            return False
        lengths = sorted(
            (
                (
                    one.request.output_tokens - 1 - one.produced,
                    one.request.prompt_tokens + max(one.produced, 1),
                )
                for one in those
            ),
            reverse=True,
        )
        held = 0
        for number, (left, has) in enumerate(lengths, start=1):
            held += has
            if left * number + held >= self.config.kv_tokens:
                return False
        return True


def _interpolated_ms(batch: int) -> float:
    at = min(max(bisect_right(_BATCHES, batch), 1), len(DECODE_MS) - 1)
    (low, low_ms), (high, high_ms) = DECODE_MS[at - 1], DECODE_MS[at]
    return low_ms + (high_ms - low_ms) * (batch - low) / (high - low)
