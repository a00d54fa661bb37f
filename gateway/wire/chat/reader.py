"""What does each event of an OpenAI stream mean, and is the stream complete?

One reader per attempt; chat and completions share it. Content is non-empty text, reasoning, a tool
call, a refusal or audio; a role-only chunk, an empty delta, a comment or prompt progress is not. A
stream is complete when every choice has a finish reason and ``[DONE]`` came; ``[DONE]`` before that
is an error, and inside a text it is text.

Output tokens are counted per choice: the replica's running count (``timings.predicted_n``, or the
usage of a content event) where it sends one, else one per content event.

Relayed bytes are the replica's own, with these exceptions. What only the gateway asked for, the
usage event and prompt-progress events, is left out, and so is the running usage inside content
events (clients add it up). A usage inside the last content event (llama.cpp, completions) becomes
the event of its own that clients expect, and several of several choices one, of all together, at
the end. An event that is ``null`` (llama.cpp, before the choices of several prompts) is left out.
``timings`` stay: clients ignore what they do not know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from gateway.core.dispatch.effects import Usage
from gateway.core.errors import UpstreamError
from gateway.core.reasons import Reason
from gateway.wire.answers.chunks import Choice, Chunk, Delta, decode_chunk
from gateway.wire.answers.events import NOT_AN_OBJECT, Garbled, decode_json, says
from gateway.wire.answers.hidden_errors import error_in, error_without_data
from gateway.wire.answers.only_text import OnlyText
from gateway.wire.chat.usage_tally import UsageTally, merged_report
from gateway.wire.dialect import Frame, FrameFacts, ParsedBody, Rewrite

_USAGE: Final = re.compile(rb',\s*"usage"\s*:\s*\{(?:[^{}]|\{[^{}]*\})*\}(?=\s*[,}])')


class OpenAiStreamReader:
    """Implements StreamReader."""

    def __init__(self, parsed: ParsedBody, rewrite: Rewrite) -> None:
        self._choices = parsed.n
        self._wants_usage = parsed.include_usage
        self._wants_progress = bool(parsed.body.get("return_progress"))
        self._runs_usage = _asks_running_usage(parsed.body)
        self._cuts_running_usage = _asks_running_usage(rewrite.extras) and not self._runs_usage
        self._has_told_usage = False
        self._last_usage: Frame | None = None  # the last event that had one
        self._tally = UsageTally(parsed)
        self._counts: dict[int, int] = {}
        self._reported: set[int] = set()
        self._finished: set[int] = set()
        self._only_text = OnlyText(lambda data: _lone_text(decode_chunk(data)))
        self._last_index = 0  # of the last choice that was read
        self._is_done = False
        self.tokens = 0
        self.usage: Usage | None = None
        self.finish_reason: str | None = None

    def is_complete(self, *, needs_done: bool = True) -> bool:
        return len(self._finished) >= self._choices and (self._is_done or not needs_done)

    def repeats(self, events: Sequence[bytes], start: int = 0) -> Sequence[str]:
        """The last event that was read had one choice, content, and nothing else."""
        texts = () if self._is_done else self._only_text.texts(events, start)
        if texts and self._last_index not in self._reported:
            self._counts[self._last_index] += len(texts)
            self.tokens += len(texts)
        return texts

    def facts(self, frame: Frame) -> FrameFacts:
        if self._is_done:
            return FrameFacts(b"", tokens=self.tokens)
        data = frame.data
        if data is None or frame.event == "error":
            error = _error_event(frame) if frame.event == "error" else error_without_data(frame)
            return self._error(error) if error else FrameFacts(frame.raw, tokens=self.tokens)
        if not data.startswith(b"{") and (facts := self._not_an_object(frame, data.strip())):
            return facts
        try:
            chunk = decode_chunk(data)
            error = error_in(chunk, data)
        except Garbled:
            return self._error(UpstreamError(Reason.UPSTREAM_ERROR, NOT_AN_OBJECT))
        if error is not None:
            return self._error(error)
        self._only_text.keep(frame, _lone_text(chunk))
        return self._chunk(frame, chunk)

    def _not_an_object(self, frame: Frame, data: bytes) -> FrameFacts | None:
        if data == b"[DONE]":
            return self._done(frame)
        if not data:
            return FrameFacts(frame.raw, tokens=self.tokens)
        if data == b"null":
            return FrameFacts(b"", tokens=self.tokens, gateway_only=True)
        return None

    def _done(self, frame: Frame) -> FrameFacts:
        self._is_done = True
        if not self.is_complete():
            message = "The replica ended its stream before every choice had finished."
            return self._error(UpstreamError(Reason.UPSTREAM_INCOMPLETE, message))
        relay = self._usage_of_all() + frame.raw
        return FrameFacts(relay, is_done=True, tokens=self.tokens)

    def _error(self, error: UpstreamError) -> FrameFacts:
        return FrameFacts(b"", error=error, tokens=self.tokens)

    def _chunk(self, frame: Frame, chunk: Chunk) -> FrameFacts:
        if not chunk.choices:
            return self._without_choices(frame, chunk)
        has_content = is_visible = False
        finish_reason: str | None = None
        for choice in chunk.choices:
            shown, thought = _content(choice)
            has_content = has_content or shown or thought
            is_visible = is_visible or shown
            self._count(choice.index, 1 if shown or thought else 0, chunk)
            self._last_index = choice.index
            if choice.finish_reason:
                finish_reason = self.finish_reason = choice.finish_reason
                self._finished.add(choice.index)
        progress = not (has_content or finish_reason) and says(chunk.prompt_progress)
        hidden = progress and not self._wants_progress
        return FrameFacts(
            relay=b"" if hidden else self._relay(frame, chunk, finishes=finish_reason is not None),
            has_content=has_content,
            is_reasoning_only=has_content and not is_visible,
            finish_reason=finish_reason,
            usage=self._final_usage(chunk, in_finish=True) if finish_reason else None,
            tokens=self.tokens,
            gateway_only=hidden,
            progress_only=progress,
        )

    def _without_choices(self, frame: Frame, chunk: Chunk) -> FrameFacts:
        """The usage event at the end, prompt progress, or something of the vendor's."""
        progress = says(chunk.prompt_progress)
        unwanted = self._has_told_usage or not self._wants_usage or self._choices > 1
        hidden = (chunk.usage is not None and unwanted) or (progress and not self._wants_progress)
        if chunk.usage is not None:
            self._last_usage = frame
        return FrameFacts(
            relay=b"" if hidden else frame.raw,
            usage=self._final_usage(chunk, in_finish=False),
            tokens=self.tokens,
            gateway_only=hidden,
            progress_only=progress,
        )

    def _relay(self, frame: Frame, chunk: Chunk, *, finishes: bool) -> bytes:
        """``finishes``: a choice, so that a usage in this event is that of all of it."""
        if chunk.usage is None:
            return frame.raw
        if finishes and not self._runs_usage:
            self._last_usage = frame
            told = _USAGE.sub(b"", frame.raw)
            if self._choices > 1:
                return told
            self._has_told_usage = True
            return told + _usage_event(frame) if self._wants_usage else told
        return _USAGE.sub(b"", frame.raw) if self._cuts_running_usage else frame.raw

    def _usage_of_all(self) -> bytes:
        """The event that is owed to who asked, where there are several choices."""
        if self._last_usage is None or self._choices <= 1 or not self._wants_usage:
            return b""
        total = self._tally.total() if self._tally.is_summed else None
        return _usage_event(self._last_usage, total)

    def _final_usage(self, chunk: Chunk, *, in_finish: bool) -> Usage | None:
        """Of the whole call: known once every choice has finished."""
        if chunk.usage is None:
            return None
        self._tally.add(chunk.usage.as_usage(), in_finish=in_finish)
        total = self._tally.total()
        if total is None or len(self._finished) < self._choices:
            return None
        self.usage, self.tokens = total, total.output_tokens
        return total

    def _count(self, index: int, events: int, chunk: Chunk) -> None:
        reported = _running_count(chunk)
        old = self._counts.get(index, 0)
        if reported is not None:
            self._reported.add(index)
            new = max(old, reported)
        elif index in self._reported:
            new = old
        else:
            new = old + events
        self._counts[index] = new
        self.tokens += new - old


def _content(choice: Choice) -> tuple[bool, bool]:
    """Whether there is something to show, and whether there is reasoning."""
    delta = choice.delta
    if delta is None:
        return bool(choice.text), False
    thought = bool(delta.reasoning_content or delta.reasoning)
    return bool(delta.content or delta.refusal) or _says_more(delta), thought


def _says_more(delta: Delta) -> bool:
    """Than text."""
    more = delta.tool_calls, delta.function_call, delta.audio
    return any(more) and any(map(says, more))


def _lone_text(chunk: Chunk) -> str | None:
    """Of an event that says nothing else: content of one choice, which goes on."""
    if chunk.choices is None or len(chunk.choices) != 1 or chunk.object == "error":
        return None
    choice = chunk.choices[0]
    if chunk.usage or chunk.timings or choice.finish_reason or says(chunk.prompt_progress):
        return None
    delta = choice.delta
    if delta is None:
        return choice.text
    if _says_more(delta):
        return None
    said = (delta.content, delta.reasoning_content, delta.reasoning, delta.refusal)
    texts = [text for text in said if text]
    return texts[0] if len(texts) == 1 else None


def _running_count(chunk: Chunk) -> int | None:
    """Output tokens of this event's choice so far, where the replica tells."""
    if chunk.timings is not None and chunk.timings.predicted_n is not None:
        return chunk.timings.predicted_n
    return chunk.usage.completion_tokens if chunk.usage is not None else None


def _asks_running_usage(body: Mapping[str, Any]) -> bool:
    return bool((body.get("stream_options") or {}).get("continuous_usage_stats"))


def _usage_event(frame: Frame, total: Usage | None = None) -> bytes:
    """The event with usage and without choices, of one that has usage. ``total``: of all."""
    try:
        told = decode_json(frame.data or b"{}")
    except Garbled:
        return b""
    if total is not None:
        told["usage"] = merged_report(told["usage"], total)
    return b"data: %b\n\n" % msgspec.json.encode({**told, "choices": []})


def _error_event(frame: Frame) -> UpstreamError | None:
    data = frame.data or b""
    try:
        hidden = error_in(decode_chunk(data), data)
    except Garbled:
        hidden = None
    return hidden or error_without_data(frame)
