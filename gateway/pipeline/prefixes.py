"""Which prompt is this, to the caches? Hashed once per call, right after parsing.

The salt group is the tenant: what one tenant sends can neither warm nor reveal anything for
another. The hashes are kept for the life of the call, the text is not.
"""

from __future__ import annotations

import msgspec

from gateway.core.caches.prefix_chain import (
    BLOCK_CHARACTERS,
    MOST_BLOCKS,
    NO_PREFIX,
    PrefixChain,
    chain_of,
    seed_of,
    session_of,
)
from gateway.pipeline.call import Order
from gateway.pipeline.eligibility import eligible_replicas
from gateway.pipeline.prompt_identity import conversation_of, prompt_hash
from gateway.wire.prompt.canonical import canonical_prompt

SYSTEM_FIRST = "system_first"
SHORTEST_BYTES = 2 * BLOCK_CHARACTERS  # below, no replica counts as a holder


def placed(order: Order, endpoint: str) -> Order:
    """With what decides where it may run and where it should. Costs time in proportion to the
    body, up to 100 ms for 20 MiB: those above 256 KiB belong into a thread. Raises Rejected."""
    return msgspec.structs.replace(
        order,
        eligible=eligible_replicas(order, endpoint),
        prefix=prefix_of(order),
        prompt_hash=prompt_hash(order.body),
        conversation=conversation_of(order.body),
    )


def prefix_of(order: Order) -> PrefixChain:
    """Costs about 1 us per block of 256 characters; nothing for short prompts, and for those that
    nothing is generated from: they leave nothing in a prefix cache."""
    body = order.body
    if body.n == 0:
        return NO_PREFIX
    key = body.body.get("prompt_cache_key")
    if body.prompt_bytes < SHORTEST_BYTES and not key:
        return NO_PREFIX
    route = order.route
    seed = seed_of(route.upstream_model, order.principal.tenant.slug)
    prompt = canonical_prompt(body.body, tools_first=route.pool.template_order != SYSTEM_FIRST)
    text = prompt.text
    session = 0
    if isinstance(key, str) and key:
        session = session_of(key, seed)
    elif prompt.marked:
        session = session_of(text[: min(prompt.marked, MOST_BLOCKS * BLOCK_CHARACTERS)], seed)
    hashes = chain_of(text, seed)
    if not hashes and not session:
        return NO_PREFIX
    tokens = order.count.size.input_tokens
    return PrefixChain(hashes, session=session).counted(tokens, len(text))
