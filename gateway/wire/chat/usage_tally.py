"""What did a call with several choices use in all, when servers report in different ways?

vLLM reports once, in an event without choices, for all choices together. llama.cpp reports once per
choice: in such an event for chat, in the choice's own finish event for completions, each with the
whole prompt. So: of events without choices one is the total and several are summed; where there is
none the finish events are summed. What is summed counts a prompt once, though it has several
choices. Running usage (an event with text and no finish reason) is of one choice and never counts
here.
"""

from __future__ import annotations

from typing import Any

from gateway.core.dispatch.effects import Usage
from gateway.wire.dialect import ParsedBody


class UsageTally:
    """One per attempt."""

    def __init__(self, parsed: ParsedBody) -> None:
        self._choices = parsed.n
        self._choices_per_prompt: int = parsed.body.get("n") or 1
        self._apart: list[Usage] = []  # in events without choices
        self._finishing: list[Usage] = []

    def add(self, usage: Usage, *, in_finish: bool) -> None:
        """``in_finish``: it came in the event that finished a choice."""
        (self._finishing if in_finish else self._apart).append(usage)

    @property
    def is_summed(self) -> bool:
        return self._choices > 1 and len(self._reports) > 1

    def total(self) -> Usage | None:
        reports = self._reports
        if not self.is_summed:
            return reports[-1] if reports else None
        return Usage(
            sum(usage.input_tokens for usage in reports) // self._choices_per_prompt,
            sum(usage.cached_tokens for usage in reports) // self._choices_per_prompt,
            sum(usage.output_tokens for usage in reports),
        )

    @property
    def _reports(self) -> list[Usage]:
        return self._apart or self._finishing


def merged_report(report: dict[str, Any], total: Usage) -> dict[str, Any]:
    """The last report with the numbers of all; what else a server says there is kept."""
    return {
        **report,
        "prompt_tokens": total.input_tokens,
        "completion_tokens": total.output_tokens,
        "total_tokens": total.input_tokens + total.output_tokens,
        "prompt_tokens_details": {"cached_tokens": total.cached_tokens},
    }
