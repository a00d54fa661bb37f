"""How many tokens will a call use? Learned from what replicas report; no tokenizer runs here.

Input: prompt bytes / bytes-per-token of (pool, tenant), an exponentially weighted average of what
was reported; it starts from the script class of the text. Output: mean and 90th percentile of
(tenant, pool), of one choice; the percentile moves up by 0.9 steps when exceeded and down by 0.1
when not, so that one call in ten exceeds it, whatever the distribution.

A cut call is charged by its estimate, and is not learned from. So what blanks have taught counts
for no other prompt: no text is taken for more than twice the bytes per token of its script.

Bounds: at most ``PAIRS`` pairs are remembered, least recently learned first out. An estimate is a
guess: it never refuses a call, and settlement corrects it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

START_OUTPUT_TOKENS: Final = 256.0
PAIRS: Final = 20_000
INPUT_WEIGHT: Final = 0.1  # of the newest report
OUTPUT_WEIGHT: Final = 0.05
QUANTILE: Final = 0.9
QUANTILE_STEP: Final = 0.1  # of the mean; larger learns faster and jitters more
SMALL_PROMPT_TOKENS: Final = 50  # below it the chat template distorts bytes per token

# Between what o200k and a 49k vocabulary need, measured: latin 4.2 and 3.4, Cyrillic 7.1 and 2.4,
# Chinese and Japanese 3.8 and 1.6, digits, base64, JSON rows and emoji 2.4 and 1.4. On the low
# side, so that the start overestimates.
BYTES_PER_TOKEN: Final[dict[str, float]] = {
    "latin": 3.5,
    "two_byte": 3.5,
    "cjk": 2.5,
    "dense": 1.5,
    "other": 2.5,
}
UNKNOWN_BYTES_PER_TOKEN: Final = 2.5
LEAST_BYTES_PER_TOKEN: Final = 0.5
MOST_BYTES_PER_TOKEN: Final = 64.0
MOST_TIMES_SCRIPT: Final = 2.0


@dataclass(frozen=True, slots=True)
class OutputEstimate:
    """Tokens of one choice. ``mean`` for counters, ``p90`` for reservations."""

    mean: float
    p90: float


@dataclass(slots=True)
class _Learned:
    bytes_per_token: float | None = None
    output_mean: float = START_OUTPUT_TOKENS
    output_p90: float = START_OUTPUT_TOKENS
    outputs: int = 0


class TokenEstimator:
    def __init__(self, pairs: int = PAIRS) -> None:
        self._pairs = pairs
        self._learned: OrderedDict[tuple[str, str], _Learned] = OrderedDict()

    def input_tokens(self, pool: str, tenant: str, *, prompt_bytes: int, script: str) -> int:
        """At least 1."""
        learned = self._learned.get((pool, tenant))
        ratio = start = BYTES_PER_TOKEN.get(script, UNKNOWN_BYTES_PER_TOKEN)
        if learned is not None and learned.bytes_per_token is not None:
            ratio = min(learned.bytes_per_token, MOST_TIMES_SCRIPT * start)
        return max(1, round(prompt_bytes / ratio))

    def output_tokens(self, pool: str, tenant: str) -> OutputEstimate:
        learned = self._learned.get((pool, tenant))
        if learned is None:
            return OutputEstimate(START_OUTPUT_TOKENS, START_OUTPUT_TOKENS)
        return OutputEstimate(learned.output_mean, learned.output_p90)

    def learn_input(self, pool: str, tenant: str, *, prompt_bytes: int, input_tokens: int) -> None:
        """``input_tokens`` as the replica reported them, cached ones included. Not for media."""
        if prompt_bytes <= 0 or input_tokens < SMALL_PROMPT_TOKENS:
            return
        seen = prompt_bytes / input_tokens
        seen = min(MOST_BYTES_PER_TOKEN, max(LEAST_BYTES_PER_TOKEN, seen))
        learned = self._pair(pool, tenant)
        before = learned.bytes_per_token
        learned.bytes_per_token = seen if before is None else _towards(before, seen, INPUT_WEIGHT)

    def learn_output(self, pool: str, tenant: str, *, output_tokens: int) -> None:
        """Of one choice of a call that ended by itself; a cut stream says little."""
        learned = self._pair(pool, tenant)
        learned.outputs += 1
        weight = max(OUTPUT_WEIGHT, 1 / (learned.outputs + 1))
        learned.output_mean = _towards(learned.output_mean, output_tokens, weight)
        step = QUANTILE_STEP * max(1.0, learned.output_mean)
        exceeded = output_tokens > learned.output_p90
        learned.output_p90 += step * (QUANTILE if exceeded else QUANTILE - 1)
        learned.output_p90 = max(1.0, learned.output_p90)

    def __len__(self) -> int:
        return len(self._learned)

    def _pair(self, pool: str, tenant: str) -> _Learned:
        name = (pool, tenant)
        learned = self._learned.get(name)
        if learned is None:
            learned = self._learned[name] = _Learned()
            if len(self._learned) > self._pairs:
                self._learned.popitem(last=False)
        self._learned.move_to_end(name)
        return learned


def _towards(before: float, seen: float, weight: float) -> float:
    return before + weight * (seen - before)
