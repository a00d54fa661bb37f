"""How does a stream become the answer of a caller that did not ask for one?

Chat and completions differ in what a choice holds: ``finish_choice`` says how. Fields that the
gateway does not know are kept, of the answer and of each choice; the last one that is not null
counts, except for what ``merging`` joins.
"""

from __future__ import annotations

from collections.abc import Callable
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

FinishChoice = Callable[[dict[str, Any]], dict[str, Any]]


class AnswerAggregator:
    """Implements Aggregator."""

    def __init__(self, parsed: ParsedBody, object_name: str, finish_choice: FinishChoice) -> None:
        self._tally = UsageTally(parsed)
        self._object_name = object_name
        self._finish_choice = finish_choice
        self._answer: dict[str, Any] = {}
        self._choices: dict[int, Merged] = {}
        self._gathering = Gathering()

    def feed(self, frame: Frame) -> None:
        chunk = self._gathering.event(frame)
        if chunk is None:
            return
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

    def _merged(self, index: Any) -> Merged:
        return self._choices.setdefault(index if type(index) is int else 0, Merged())

    def result(self, *, service_tier: str | None = None) -> bytes:
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
