"""What does each event of a Messages stream mean, and is the stream complete?

One reader per attempt. Content is a non-empty text, thinking or tool delta, and the beginning of a
block that already says something (a tool's name); ``message_start``, the beginning of an empty
block, signatures and pings are not. A stream is complete when a ``stop_reason`` and then
``message_stop`` came; ``message_stop`` before it is an error.

Output tokens are one per content event until ``message_delta`` reports them. Usage counts once it
is final: ``message_start`` knows the prompt, the last ``message_delta`` the answer.

All bytes are relayed as they came: nothing in such a stream is asked for by the gateway alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.core.dispatch.effects import Usage
from gateway.core.errors import UpstreamError
from gateway.core.reasons import Reason
from gateway.wire.answers.events import NOT_AN_OBJECT, Garbled, says
from gateway.wire.answers.hidden_errors import error_without_data
from gateway.wire.answers.only_text import OnlyText
from gateway.wire.dialect import Frame, FrameFacts
from gateway.wire.messages.events import ContentBlock, Delta, Event, ReportedUsage, decode_event
from gateway.wire.messages.hidden_errors import error_in

_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})


class MessagesStreamReader:
    """Implements StreamReader."""

    def __init__(self) -> None:
        self._reported = ReportedUsage()
        self._is_done = False
        self._only_text = OnlyText(lambda data: _lone_text(decode_event(data)))
        self.tokens = 0
        self.usage: Usage | None = None
        self.finish_reason: str | None = None

    def is_complete(self, *, needs_done: bool = True) -> bool:
        return self.finish_reason is not None and (self._is_done or not needs_done)

    def repeats(self, events: Sequence[bytes], start: int = 0) -> Sequence[str]:
        """The last event that was read was a delta of one text."""
        texts = () if self._is_done else self._only_text.texts(events, start)
        self.tokens += len(texts)
        return texts

    def facts(self, frame: Frame) -> FrameFacts:
        if self._is_done:
            return FrameFacts(b"", tokens=self.tokens)
        if frame.data is None or not frame.data.strip():
            error = error_without_data(frame)
            return self._error(error) if error else FrameFacts(frame.raw, tokens=self.tokens)
        try:
            event = decode_event(frame.data)
        except Garbled:
            return self._error(UpstreamError(Reason.UPSTREAM_ERROR, NOT_AN_OBJECT))
        kind = event.type or frame.event
        if kind == "error" or frame.event == "error" or says(event.error):
            return self._error(error_in(frame.data))
        self._only_text.keep(frame, _lone_text(event))
        return self._event(frame, kind, event)

    def _event(self, frame: Frame, kind: str | None, event: Event) -> FrameFacts:
        match kind:
            case "content_block_delta":
                return self._content(frame, *_said_by_delta(event.delta))
            case "content_block_start":
                return self._content(frame, *_said_by_block(event.content_block))
            case "message_start":
                if event.message is not None and event.message.usage is not None:
                    self._reported = event.message.usage
            case "message_delta":
                return self._message_delta(frame, event)
            case "message_stop":
                return self._stopped(frame)
        return FrameFacts(frame.raw, tokens=self.tokens, acknowledges=kind == "ping")

    def _content(self, frame: Frame, shown: bool, thought: bool) -> FrameFacts:
        has_content = shown or thought
        self.tokens += has_content
        return FrameFacts(
            frame.raw,
            has_content=has_content,
            is_reasoning_only=thought and not shown,
            tokens=self.tokens,
        )

    def _message_delta(self, frame: Frame, event: Event) -> FrameFacts:
        if event.usage is not None:
            self._reported = event.usage.onto(self._reported)
        reason = event.delta.stop_reason if event.delta is not None else None
        self.finish_reason = reason or self.finish_reason
        usage = None
        if self.finish_reason is not None and event.usage is not None:
            usage = self.usage = self._reported.as_usage()
            self.tokens = usage.output_tokens
        return FrameFacts(frame.raw, finish_reason=reason, usage=usage, tokens=self.tokens)

    def _stopped(self, frame: Frame) -> FrameFacts:
        self._is_done = True
        if self.finish_reason is None:
            message = "The replica ended its message without a reason."
            return self._error(UpstreamError(Reason.UPSTREAM_INCOMPLETE, message))
        return FrameFacts(frame.raw, is_done=True, tokens=self.tokens)

    def _error(self, error: UpstreamError) -> FrameFacts:
        return FrameFacts(b"", error=error, tokens=self.tokens)


def _lone_text(event: Event) -> str | None:
    """Of a delta that says nothing else."""
    delta = event.delta
    if event.type != "content_block_delta" or delta is None:
        return None
    texts = [text for text in (delta.text, delta.thinking, delta.partial_json) if text]
    return texts[0] if len(texts) == 1 else None


def _said_by_delta(delta: Delta | None) -> tuple[bool, bool]:
    """Whether there is something to show, and whether there is thinking."""
    if delta is None:
        return False, False
    return bool(delta.text or delta.partial_json), bool(delta.thinking)


def _said_by_block(block: ContentBlock | None) -> tuple[bool, bool]:
    if block is None:
        return False, False
    if block.type in _THOUGHTS:
        return False, bool(block.thinking or block.data)
    return bool(block.text or block.name), False
