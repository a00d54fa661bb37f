"""How does a stream become the answer of a caller that did not ask for one?

Chat and completions differ in what a choice holds: ``finish_choice`` says how. Fields that the
gateway does not know are kept, of the answer and of each choice; the last one that is not null
counts, except for what ``merging`` joins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gateway.wire.answers.chunks import ReportedUsage
from gateway.wire.answers.events import decode_json, fitting
from gateway.wire.answers.gathered import Gathering
from gateway.wire.answers.merging import Merged
from gateway.wire.answers.only_text import OnlyText
from gateway.wire.chat.usage_tally import UsageTally, merged_report
from gateway.wire.dialect import Frame, ParsedBody

_HEAD: Final = ("id", "created", "model")
_PLACED: Final = ("choices", "object", "service_tier", "prompt_progress")
_TEXTS: Final = frozenset({"content", "reasoning_content", "reasoning", "text"})

FinishChoice = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class LoneText:
    """All that an event adds to its answer."""

    index: int
    in_delta: bool
    name: str
    text: str


class AnswerAggregator:
    """Implements Aggregator."""

    def __init__(self, parsed: ParsedBody, object_name: str, finish_choice: FinishChoice) -> None:
        self._tally = UsageTally(parsed)
        self._object_name = object_name
        self._finish_choice = finish_choice
        self._answer: dict[str, Any] = {}
        self._choices: dict[int, Merged] = {}
        self._gathering = Gathering()
        self._only_text = OnlyText(_lone_text_in)
        self._lone: LoneText | None = None  # of the last event that was read
        self._texts: list[str] = []  # of the events since, which differ from it in nothing else

    def repeats(self, events: Sequence[bytes]) -> int:
        texts = self._only_text.texts(events)
        if texts:
            self._gathering.hold(sum(map(len, events[: len(texts)])))
            self._texts += texts
        return len(texts)

    def feed(self, frame: Frame) -> None:
        self._add_texts()
        chunk = self._gathering.event(frame)
        self._lone = _lone_text(chunk) if chunk is not None else None
        self._only_text.keep(frame, self._lone.text if self._lone else None)
        if chunk is not None:
            self._add(chunk)

    def _add(self, chunk: dict[str, Any]) -> None:
        self._answer.update({name: value for name, value in chunk.items() if value is not None})
        choices = chunk.get("choices")
        choices = choices if isinstance(choices, list) else []
        pieces = [choice for choice in choices if isinstance(choice, dict)]
        for piece in pieces:
            self._merged(piece.get("index")).add(piece)
        finishes = any(piece.get("finish_reason") for piece in pieces)
        reported = fitting(chunk.get("usage"), ReportedUsage)
        if reported is not None and (finishes or not choices):
            self._tally.add(reported.as_usage(), in_finish=finishes)

    def _add_texts(self) -> None:
        if self._texts and self._lone is not None:
            piece: dict[str, Any] = {self._lone.name: "".join(self._texts)}
            self._merged(self._lone.index).add({"delta": piece} if self._lone.in_delta else piece)
            self._texts.clear()

    def _merged(self, index: Any) -> Merged:
        return self._choices.setdefault(index if type(index) is int else 0, Merged())

    def result(self, *, service_tier: str | None = None) -> bytes:
        self._add_texts()
        answer, placed = self._answer, (*_HEAD, *_PLACED)
        head = {name: answer[name] for name in _HEAD if name in answer}
        rest = {name: value for name, value in answer.items() if name not in placed}
        total = self._tally.total()
        if total is not None and self._tally.is_summed:
            rest["usage"] = merged_report(rest["usage"], total)
        tier = service_tier or answer.get("service_tier")
        if tier is not None:
            rest["service_tier"] = tier
        choices = [
            {"index": index, **self._finish_choice(self._choices[index].value())}
            for index in sorted(self._choices)
        ]
        return msgspec.json.encode(
            {**head, "object": self._object_name, "choices": choices, **rest}
        )


def _lone_text(event: dict[str, Any]) -> LoneText | None:
    """None: the event adds something else, or more than that."""
    choices = event.get("choices")
    if event.get("usage") is not None or not isinstance(choices, list) or len(choices) != 1:
        return None
    choice = _without_nulls(choices[0])
    index, delta = choice.pop("index", 0), choice.pop("delta", None)
    if delta is not None:
        said = {} if choice else _without_nulls(delta)
        said.pop("role", None)
    else:
        said = choice
    name, text = next(iter(said.items()), ("", None))
    if len(said) != 1 or name not in _TEXTS or not isinstance(text, str) or type(index) is not int:
        return None
    return LoneText(index, delta is not None, name, text)


def _without_nulls(value: Any) -> dict[str, Any]:
    """Empty for what is no object."""
    if not isinstance(value, dict):
        return {}
    return {name: inner for name, inner in value.items() if inner is not None}


def _lone_text_in(data: bytes) -> str | None:
    lone = _lone_text(decode_json(data))
    return lone.text if lone else None
