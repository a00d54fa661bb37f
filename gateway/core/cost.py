"""What does a call cost? Its service cost drives queue and routing; its price is charged.

The two are separate on purpose: the service cost is in weighted tokens and never leaves the
scheduler; the price is in microcredits (1 credit = 1,000,000) and depends on the pool only.
"""

from __future__ import annotations

from dataclasses import dataclass

CACHED_WEIGHT = 0.1
OUTPUT_WEIGHT = 2.0
_TOKENS_PER_PRICE = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """Microcredits per million tokens: 1,000,000 is one microcredit per token."""

    input_per_mtok: int = 0
    cached_per_mtok: int = 0
    output_per_mtok: int = 0


FREE = Prices()


def service_cost(input_tokens: int, cached_tokens: int, output_tokens: int) -> float:
    """Linear: 1 per uncached input token, 0.1 per cached one, 2 per output token."""
    cached = min(cached_tokens, input_tokens)
    return (input_tokens - cached) + CACHED_WEIGHT * cached + OUTPUT_WEIGHT * output_tokens


def price_microcredits(
    prices: Prices, input_tokens: int, cached_tokens: int, output_tokens: int
) -> int:
    """Rounded up to whole microcredits, so that no call that costs anything is free."""
    cached = min(cached_tokens, input_tokens)
    total = (
        (input_tokens - cached) * prices.input_per_mtok
        + cached * prices.cached_per_mtok
        + output_tokens * prices.output_per_mtok
    )
    return -(-total // _TOKENS_PER_PRICE)
