"""A decision in words: where the call went, what the alternatives were, and why not there."""

from __future__ import annotations

import msgspec

from gateway import selectors
from gateway.core.records import CallStory
from gateway.core.routing.decision import Candidate, Decision

_RULES = {
    "only_open": "it was the only replica with room that may run it",
    "affinity": "it holds the beginning of the prompt and is not overloaded",
    "session": "the last call of the same session went there",
    "least_load": "it had the least load, and none that holds the prompt had room within its bound",
    "seed": "the replicas that hold the prompt carry much more: it was made another holder",
    "copy": "the prompt's beginning is so frequent that more replicas shall hold it",
    "least_cost": "the first token costs least there",
    "turn": "it was its turn",
    "less_of_two": "it was the less loaded of two random ones",
    "random": "it was drawn at random",
    "match": "it holds most of the prompt",
    "no_match": "no replica holds enough of the prompt, and it runs the fewest calls",
    "imbalance": "the loads were too far apart for the cache to decide",
    "score": "it had the highest score of match, queue and memory",
    "backlog": "those that hold the prompt have too long a backlog",
    "no_holder": "no replica holds the prompt, and it had the least load",
}
_LIBERTIES = {
    "look_ahead": " It went before earlier calls of its tenant: that replica holds its prompt.",
    "quantum": " It went a little before its tenant's turn, since that replica holds its prompt.",
}
_CLASSES = {
    "aged": " It had waited so long that it competed as interactive.",
    "batch_share": " It took the one place in twenty that is batch's.",
}


def routing_of(call_id: str, *, for_operator: bool) -> str | None:
    """None: it was not kept, or never dispatched. The load of the pool and the place of other
    tenants are for operators."""
    kept = selectors.explanation(call_id)
    if kept is None:
        return None
    story = msgspec.convert(kept.told, CallStory)
    words = (of_decision(each, for_operator=for_operator) for each in story.decisions)
    return " ".join(words) or None


def of_decision(decision: Decision, *, for_operator: bool) -> str:
    why = _RULES.get(decision.rule, f"rule {decision.rule}")
    said = (
        f"After {decision.waited_s:.2f} s in the queue it was sent to {decision.replica}: {why}"
        f" (policy {decision.policy}, {decision.open_replicas} open)."
    )
    said += _CLASSES.get(decision.class_rule, "") + _LIBERTIES.get(decision.liberty, "")
    if decision.predicted_cached_tokens or decision.best_cached_tokens:
        said += (
            f" {decision.predicted_cached_tokens:,} prompt tokens were expected in its cache,"
            f" {decision.best_cached_tokens:,} in the best one."
        )
    return said + _figures(decision) if for_operator else said


def _figures(decision: Decision) -> str:
    said = ""
    if decision.bound_tokens is not None:
        said += f" Bound of load: {decision.bound_tokens:,.0f} tokens."
    if decision.candidates:
        said += f" Compared: {'; '.join(map(_candidate, decision.candidates))}."
    if decision.start_tag is not None and decision.virtual_time is not None:
        said += (
            f" Its tenant stood at {decision.start_tag:,.0f}, the queue at"
            f" {decision.virtual_time:,.0f} service tokens; {decision.waiting_calls:,} calls of"
            " its class waited."
        )
    return said


def _candidate(candidate: Candidate) -> str:
    said = (
        f"{candidate.replica} with {candidate.load_tokens:,} tokens in flight and"
        f" {candidate.matched_tokens:,} matched"
    )
    if candidate.slow_ratio > 1:
        said += f", {candidate.slow_ratio:.1f} times as slow as its peers"
    return said if candidate.cost is None else f"{said}, cost {candidate.cost:.3f}"
