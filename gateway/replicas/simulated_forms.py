"""In which forms does a simulated replica generate? One per API: how its requests are read, how
its answers and refusals are written. In ``COUNTS``: how only the prompt is counted, and refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from gateway.replicas import simulated_messages, simulated_responses
from gateway.replicas.simulated_answer import AnswerWriter
from gateway.replicas.simulated_call import Refusal, SimulatedCall, parse
from gateway.replicas.simulated_messages import MessagesWriter, parse_messages, refusal_body
from gateway.replicas.simulated_responses import ResponsesWriter, parse_responses


class Writer(Protocol):
    """Tokens are numbered from 1."""

    def opening(self) -> bytes: ...

    def token(self, number: int, cached_tokens: int) -> bytes: ...

    def closing(self, number: int, cached_tokens: int) -> bytes: ...

    def whole(self, cached_tokens: int) -> bytes:
        """The answer of a call without a stream."""
        ...


@dataclass(frozen=True, slots=True)
class Form:
    """``parse`` takes the body, an id, ``model`` and ``engine``, and raises Refusal. ``writer``
    takes the call and the time in seconds of the Unix epoch."""

    prefix: str  # of its ids
    parse: Callable[..., SimulatedCall]
    writer: Callable[[SimulatedCall, int], Writer] = AnswerWriter
    refusal: Callable[[Refusal], bytes] = Refusal.body


FORMS: Final = {
    "/v1/chat/completions": Form("chatcmpl", partial(parse, chat=True)),
    "/v1/completions": Form("cmpl", partial(parse, chat=False)),
    "/v1/responses": Form("resp", parse_responses, ResponsesWriter),
    "/v1/messages": Form("msg", parse_messages, MessagesWriter, refusal_body),
}
COUNTS: Final[dict[str, tuple[Callable[..., bytes], Callable[[Refusal], bytes]]]] = {
    "/v1/messages/count_tokens": (simulated_messages.count_tokens, refusal_body),
    "/v1/responses/input_tokens": (simulated_responses.count_tokens, Refusal.body),
}
