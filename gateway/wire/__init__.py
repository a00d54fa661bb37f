"""The wire: one module per API dialect, server-sent events, errors, headers. No I/O."""

from __future__ import annotations

from typing import Final

from gateway.wire.chat import CHAT
from gateway.wire.completions import COMPLETIONS
from gateway.wire.dialect import Dialect
from gateway.wire.embeddings import EMBEDDINGS
from gateway.wire.messages.dialect import COUNT_TOKENS, MESSAGES
from gateway.wire.responses.dialect import RESPONSES

DIALECTS: Final[dict[str, Dialect]] = {
    f"/v1/{dialect.endpoint}": dialect
    for dialect in (CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, MESSAGES, COUNT_TOKENS)
}
