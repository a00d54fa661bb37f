"""How long does one step of an inference engine take?

    step = max(a, b + c*n) + overhead + k_kv * KV tokens read + k_att * sum chunk * (ctx + chunk/2)

n = sequences that decode + prompt tokens that are prefilled in this step; KV tokens read =
contexts of the decoding sequences; the last sum runs over the prefilled chunks. Units: seconds
and tokens.

An operator-profile model, not a run on a GPU. a, b, c are fits to Vidur's published operator
profiles (linear operators, tensor parallel 1; mean error 2.6-4.6 %, at most 38 %); k_kv is 85 %
of the nominal memory bandwidth at 128 KiB of KV per token (512 KiB for Llama-2-7B); k_att is
524,288 FLOPs per pair at an assumed 150 TFLOPS (A100) or 400 (H100); overhead = language-model
head and an assumed 1.5 ms of CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

_PAIR_FLOPS = 524_288


@dataclass(frozen=True, slots=True)
class StepWork:
    """What one step computes. ``prefilled``: prompt tokens of ``prefills`` requests."""

    decoding: int
    prefills: int
    prefilled: int
    kv_tokens_read: int
    pairs: float


class StepModel(Protocol):
    def step_s(self, work: StepWork) -> float: ...


@dataclass(frozen=True, slots=True)
class SequenceStep:
    """The fleet of the project's scenarios: a base, a share for every running sequence, and prompt
    tokens at a constant rate. Plain on purpose: the same for everyone who compares policies."""

    base_s: float = 0.020
    per_sequence_s: float = 0.0001
    prefill_tps: float = 20_480.0

    def step_s(self, work: StepWork) -> float:
        sequences = work.decoding + work.prefills
        return self.base_s + self.per_sequence_s * sequences + work.prefilled / self.prefill_tps


@dataclass(frozen=True, slots=True)
class StepTime:
    """Parameters of one engine on one kind of hardware. ``source`` is shown in the command's
    help."""

    floor_s: float  # a
    base_s: float  # b
    per_token_s: float  # c
    overhead_s: float
    per_kv_token_s: float  # k_kv
    per_pair_s: float  # k_att
    source: str

    def duration_s(self, tokens: int, kv_tokens_read: int, pairs: float) -> float:
        linear_s = max(self.floor_s, self.base_s + self.per_token_s * tokens)
        return (
            linear_s
            + self.overhead_s
            + self.per_kv_token_s * kv_tokens_read
            + self.per_pair_s * pairs
        )

    def step_s(self, work: StepWork) -> float:
        tokens = work.decoding + work.prefilled
        return self.duration_s(tokens, work.kv_tokens_read, work.pairs)


def _vidur(
    a_ms: float, b_ms: float, c_ms: float, kv_ns: float, tflops: float, source: str
) -> StepTime:
    return StepTime(
        floor_s=a_ms / 1e3,
        base_s=b_ms / 1e3,
        per_token_s=c_ms / 1e3,
        overhead_s=2.15e-3,
        per_kv_token_s=kv_ns * 1e-9,
        per_pair_s=_PAIR_FLOPS / (tflops * 1e12),
        source=source,
    )


STEP_TIMES: dict[str, StepTime] = {
    "a100-llama-3-8b": _vidur(
        10.44, 5.18, 0.06679, 75, 150, "A100-80, Llama-3-8B: Vidur operator profile, TP1"
    ),
    "a100-llama-2-7b": _vidur(
        9.61, 2.30, 0.06393, 300, 150, "A100-80, Llama-2-7B: Vidur operator profile, TP1"
    ),
    "h100-llama-2-7b": _vidur(
        5.81, 3.91, 0.01941, 184, 400, "H100, Llama-2-7B: Vidur operator profile, TP1"
    ),
    "h100-llama-3-8b": _vidur(
        6.1, 4.1, 0.0205, 46, 400, "H100, Llama-3-8B: inferred, H100 Llama-2-7B times 1.05"
    ),
    "a40-llama-2-7b": _vidur(
        29.15, 13.85, 0.1196, 880, 75, "A40, Llama-2-7B: Vidur operator profile, TP1"
    ),
}
