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
from gateway.wire.answers.events import fitting
from gateway.wire.answers.gathered import Gathering
from gateway.wire.answers.merging import Merged
from gateway.wire.chat.usage_tally import UsageTally, merged_report
from gateway.wire.dialect import Frame, ParsedBody

_HEAD: Final = ("id", "created", "model")
_PLACED: Final = ("choices", "object", "service_tier", "prompt_progress")
_NOT_AMONG_REST: Final = frozenset((*_HEAD, *_PLACED))
_TEXTS: Final = frozenset({"content", "reasoning_content", "reasoning", "text"})

FinishChoice = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class LoneText:
    """Where a text belongs that is all that its event adds to its answer."""

    index: int
    in_delta: bool
    name: str


class AnswerAggregator:
    """Implements Aggregator."""

    def __init__(self, parsed: ParsedBody, object_name: str, finish_choice: FinishChoice) -> None:
        self._tally = UsageTally(parsed)
        self._object_name = object_name
        self._finish_choice = finish_choice
        self._answer: dict[str, Any] = {}
        self._choices: dict[int, Merged] = {}
        self._gathering = Gathering()
        self._lone: LoneText | None = None  # of the last event that was read
        self._texts: list[str] = []  # of the events since, which differ from it in nothing else

    def repeat(self, texts: Sequence[str], size_bytes: int) -> bool:
        if self._lone is None:
            return False
        self._gathering.hold(size_bytes)
        self._texts += texts
        return True

    def feed(self, frame: Frame) -> None:
        if self._texts:
            self._add_texts()
        chunk = self._gathering.event(frame)
        self._lone = _lone_text(chunk) if chunk is not None else None
        if chunk is not None:
            self._add(chunk)

    def _add(self, chunk: dict[str, Any]) -> None:
        answer, finishes = self._answer, False
        for name, value in chunk.items():
            if value is not None:
                answer[name] = value
        choices = chunk.get("choices")
        choices = choices if isinstance(choices, list) else []
        for piece in choices:
            if isinstance(piece, dict):
                self._merged(piece.get("index")).add(piece)
                finishes = finishes or bool(piece.get("finish_reason"))
        usage = chunk.get("usage")
        if usage is None or (choices and not finishes):
            return
        if (reported := fitting(usage, ReportedUsage)) is not None:
            self._tally.add(reported.as_usage(), in_finish=finishes)

    def _add_texts(self) -> None:
        if self._lone is not None:
            piece: dict[str, Any] = {self._lone.name: "".join(self._texts)}
            self._merged(self._lone.index).add({"delta": piece} if self._lone.in_delta else piece)
            self._texts.clear()

    def _merged(self, index: Any) -> Merged:
        index = index if type(index) is int else 0
        merged = self._choices.get(index)
        if merged is None:
            merged = self._choices[index] = Merged()
        return merged

    def result(self, *, service_tier: str | None = None) -> bytes:
        if self._texts:
            self._add_texts()
        answer = self._answer
        head = {name: answer[name] for name in _HEAD if name in answer}
        rest = {name: value for name, value in answer.items() if name not in _NOT_AMONG_REST}
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
    choice = choices[0]
    if not isinstance(choice, dict) or choice.get("finish_reason") is not None:
        return None
    choice = _without_nulls(choice)
    index, delta = choice.pop("index", 0), choice.pop("delta", None)
    if delta is not None:
        said = {} if choice else _without_nulls(delta)
        said.pop("role", None)
    else:
        said = choice
    name, text = next(iter(said.items()), ("", None))
    if len(said) != 1 or name not in _TEXTS or not isinstance(text, str) or type(index) is not int:
        return None
    return LoneText(index, delta is not None, name)


def _without_nulls(value: Any) -> dict[str, Any]:
    """Empty for what is no object."""
    if not isinstance(value, dict):
        return {}
    return {name: inner for name, inner in value.items() if inner is not None}
