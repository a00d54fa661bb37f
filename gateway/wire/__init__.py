"""The wire: what each API says, and the one form in which the gateway understands it. No I/O.

One package per dialect, alike inside and knowing nothing of each other: ``chat`` (with
completions), ``messages``, ``responses``, ``embeddings``. In each: ``fields`` (what a request may
say), ``prompt_size`` (how much of it is prompt), ``events`` (what a stream says), ``reader`` (what
that means), ``hidden_errors`` (failures inside a 200), ``aggregator`` (the answer in one piece),
and ``dialect``, which puts them together; what is missing is the shared one. ``events`` and
``hidden_errors`` of chat are ``chunks`` and ``hidden_errors`` in ``answers``: servers tell errors
and usage in its words elsewhere too.

What they share: ``dialect`` (the interface), ``body`` and ``request_fields`` (what comes in),
``prompt`` (what the model reads of it), ``upstream_request`` (what goes to the replica),
``answers`` (what comes from it), ``errors`` (in OpenAI's shape). Beside the bodies: ``headers``,
``retry_headers``, ``request_hints``, ``api_styles``, ``models``.

A new dialect is a package like these and a row in ``DIALECTS``.
"""

from __future__ import annotations

from typing import Final

from gateway.wire.chat.dialect import CHAT, COMPLETIONS
from gateway.wire.dialect import Dialect
from gateway.wire.embeddings.dialect import EMBEDDINGS
from gateway.wire.messages.dialect import COUNT_TOKENS, MESSAGES
from gateway.wire.responses.dialect import INPUT_TOKENS, RESPONSES

DIALECTS: Final[dict[str, Dialect]] = {
    f"/v1/{dialect.endpoint}": dialect
    for dialect in (
        *(CHAT, COMPLETIONS, EMBEDDINGS),
        *(RESPONSES, INPUT_TOKENS),
        *(MESSAGES, COUNT_TOKENS),
    )
}
