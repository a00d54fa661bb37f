"""What does each event of a Responses stream mean, and is the stream complete?

One reader per attempt. Content is a non-empty delta of any kind: text, refusal, arguments of a
call, reasoning or its summary, audio, code. ``response.created``, the beginning of an item or of a
part, and what closes them is not. ``response.completed`` and ``response.incomplete`` end the stream
and report its usage; ``response.failed`` and ``error`` are the replica's failure and are not
relayed.

Output tokens are the replica's running count (``timings.predicted_n``) where it sends one, else
one per delta, until the last event reports them.

Bytes are relayed as they came, but for one thing: clients expect that events are numbered and say
of which item and part they are, and where the replica says nothing of that (llama.cpp) it is
written in: the number that follows, the item that was added last, its only part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from gateway.core.dispatch.effects import Usage
from gateway.core.errors import UpstreamError
from gateway.core.reasons import Reason
from gateway.wire.answers.chunks import decode_chunk
from gateway.wire.answers.events import NOT_AN_OBJECT, Garbled, says
from gateway.wire.answers.hidden_errors import error_in, error_without_data
from gateway.wire.dialect import Frame, FrameFacts
from gateway.wire.responses.events import Event, Response, decode_event
from gateway.wire.responses.hidden_errors import error_of_event, error_of_response

_ACKNOWLEDGED: Final = frozenset(
    {"response.created", "response.queued", "response.in_progress"}
)  # vLLM sends them at once, also while the call waits in its own queue
ENDS: Final = frozenset({"response.completed", "response.incomplete"})
_FAILURES: Final = frozenset({"response.failed", "response.cancelled"})
_THOUGHT: Final = "response.reasoning"
_OWN: Final = "response."
_ADDED: Final = "response.output_item.added"
_OF_PART: Final = (
    "response.content_part",
    "response.output_text",
    "response.refusal",
    "response.reasoning_text",
)
_OF_ITEM: Final = (*_OF_PART, "response.output_item", "response.function_call", _THOUGHT)


class ResponsesStreamReader:
    """Implements StreamReader."""

    def __init__(self) -> None:
        self.tokens = 0
        self._next_event = 0
        self._items = 0  # that were added
        self._is_done = False
        self.usage: Usage | None = None
        self.finish_reason: str | None = None

    def is_complete(self, *, needs_done: bool = True) -> bool:
        """The last event is the end marker, and every server sends it."""
        return self._is_done

    def repeats(self, events: Sequence[bytes], start: int = 0) -> Sequence[str]:
        return ()

    def facts(self, frame: Frame) -> FrameFacts:
        if self._is_done:
            return self._relayed(b"")
        if frame.data is None or not frame.data.strip():
            error = error_without_data(frame)
            return self._error(error) if error else self._relayed(frame.raw)
        if frame.data.strip() == b"[DONE]":
            return self._incomplete()
        try:
            event = decode_event(frame.data)
            error = _failure(frame, event)
        except Garbled:
            return self._failed(NOT_AN_OBJECT)
        return self._error(error) if error is not None else self._event(frame, event)

    def _event(self, frame: Frame, event: Event) -> FrameFacts:
        kind = event.type or frame.event or ""
        raw, number = frame.raw, event.sequence_number
        if number is None:
            number = self._next_event
            raw = self._placed(raw, event, number) if event.type else raw
        self._next_event = number + 1
        if kind in ENDS:
            return self._end(raw, kind, event.response)
        has_content = bool(event.delta) and kind.endswith(".delta")
        self._count(event, has_content)
        return FrameFacts(
            raw,
            has_content=has_content,
            is_reasoning_only=has_content and kind.startswith(_THOUGHT),
            tokens=self.tokens,
            acknowledges=kind in _ACKNOWLEDGED,
            next_event=self._next_event,
        )

    def _placed(self, raw: bytes, event: Event, number: int) -> bytes:
        """``raw``, whose data is an object with a field, with what it does not say."""
        kind, said = event.type or "", b'"sequence_number":%d,' % number
        self._items += kind == _ADDED
        if kind.startswith(_OF_ITEM) and event.output_index is None:
            said += b'"output_index":%d,' % max(0, self._items - 1)
        if kind.startswith(_OF_PART) and event.content_index is None:
            said += b'"content_index":0,'
        begin = raw.find(b"{", raw.find(b"data:")) + 1
        return raw[:begin] + said + raw[begin:]

    def _end(self, raw: bytes, kind: str, response: Response | None) -> FrameFacts:
        if response is None:
            return self._failed("The replica ended its stream without a response.")
        self._is_done = True
        self.finish_reason = "stop" if kind == "response.completed" else _why(response)
        if response.usage is not None:
            self.usage = response.usage.as_usage()
            self.tokens = self.usage.output_tokens
        return FrameFacts(
            raw,
            finish_reason=self.finish_reason,
            usage=self.usage,
            is_done=True,
            tokens=self.tokens,
            next_event=self._next_event,
        )

    def _count(self, event: Event, has_content: bool) -> None:
        running = event.timings.predicted_n if event.timings is not None else None
        if running is not None:
            self.tokens = max(self.tokens, running)
        else:
            self.tokens += has_content

    def _relayed(self, raw: bytes) -> FrameFacts:
        return FrameFacts(raw, tokens=self.tokens, next_event=self._next_event)

    def _incomplete(self) -> FrameFacts:
        message = "The replica ended its stream before the response had ended."
        return self._error(UpstreamError(Reason.UPSTREAM_INCOMPLETE, message))

    def _failed(self, message: str) -> FrameFacts:
        return self._error(UpstreamError(Reason.UPSTREAM_ERROR, message))

    def _error(self, error: UpstreamError) -> FrameFacts:
        return FrameFacts(b"", error=error, tokens=self.tokens, next_event=self._next_event)


def _failure(frame: Frame, event: Event) -> UpstreamError | None:
    """Raises Garbled. ``frame`` has data."""
    data, kind = frame.data or b"", event.type or frame.event or ""
    if kind == "error" or frame.event == "error" or says(event.error):
        return error_of_event(data)
    if kind in _FAILURES or (kind in ENDS and event.response and event.response.status == "failed"):
        return error_of_response(event.response.error if event.response else msgspec.Raw())
    return None if kind.startswith(_OWN) else error_in(decode_chunk(data), data)


def _why(response: Response) -> str:
    details = response.incomplete_details
    return (details.reason if details is not None else None) or "incomplete"
