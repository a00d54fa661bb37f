"""Filters of the pages: numbers, classes, reasons, moments, bars."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dashboard import audit_words, figures, numbers, words
from dashboard.explain import Step
from dashboard.live.facts import FleetFacts, Latency, PoolRow, TenantRow
from dashboard.quota import CreditUse, LimitState
from gateway.core.events import BatchSecond, ReplicaSecond
from gateway.core.priority import PriorityClass, label_of
from gateway.core.reasons import REASONS, Reason
from tenants.actors import ActorKind
from tenants.models import AuditEntry
from tenants.services.organizations import SET_HIGHEST_CLASS, SET_WEIGHT

register = template.Library()

UNDOABLE = {SET_WEIGHT, SET_HIGHEST_CLASS}
OUTCOMES = {"completed": "ok", "failed": "bad", "aborted": "idle"} | dict.fromkeys(
    ("rejected", "evicted"), "warn"
)

for name in ("duration", "count", "percent", "plain"):
    register.filter(name, getattr(numbers, name))
register.filter("changes", audit_words.changes)
register.filter("fleet_sentence", words.fleet_sentence)
register.filter("tenant_sentence", words.tenant_sentence)
register.filter("degraded_words", words.degraded_words)
register.filter("share_words", words.share_words)
register.filter("queue_words", words.queue_words)
register.filter("ttft_words", figures.ttft_words)
register.filter("share_chart_words", figures.share_words)


@register.filter
def many(number: int, noun: str) -> str:
    return numbers.many(number, noun)


@register.filter
def latency(value: Latency) -> str:
    return numbers.pair(value.p50_s, value.p99_s)


@register.filter
def class_mark(value: int | None) -> SafeString:
    label = label_of(value)
    return format_html('<span class="class {}">{}</span>', label, label)


@register.filter
def meaning(reason: str) -> str:
    """What a reason says to people; empty for one of an older version."""
    return REASONS[Reason(reason)].meaning if reason in set(Reason) else ""


@register.simple_tag
def moment(at: float | datetime | None) -> SafeString:
    """A time that scripts rewrite as "3 s ago"; without scripts the clock time."""
    if at is None:
        return format_html("never")
    when = at if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)
    return format_html(
        '<time datetime="{}" title="{}" data-relative>{}</time>',
        when.isoformat(timespec="seconds"),
        when.strftime("%Y-%m-%d %H:%M:%S UTC"),
        when.strftime("%H:%M:%S"),
    )


@register.simple_tag
def state(kind: str, text: str) -> SafeString:
    return format_html('<span class="state {}">{}</span>', kind, text)


@register.simple_tag
def pool_state(row: PoolRow) -> SafeString:
    return state(*words.state_of_pool(row))


@register.simple_tag
def replica_state(name: str) -> SafeString:
    return state(*words.STATES.get(name, ("idle", name)))


@register.simple_tag
def bar(label: str, **parts: Any) -> SafeString:
    """Parts of one, laid end to end; the name of a part is its CSS class. ``mark`` is a tick."""
    mark = parts.pop("mark", None)
    left, rects = 0.0, []
    for css_class, ratio in parts.items():
        width = max(0.0, min(100.0 - left, 100 * (ratio or 0.0)))
        rects.append((css_class, f"{left:.1f}", f"{width:.1f}"))
        left += width
    if mark is not None:
        rects.append(("mark", f"{min(98.0, 100 * mark):.1f}", "2"))
    drawn = format_html_join("", '<rect class="{}" x="{}" width="{}" height="8"/>', rects)
    return format_html(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img"'
        ' aria-label="{}">{}</svg>',
        label,
        drawn,
    )


@register.simple_tag
def swatch(position: int) -> SafeString:
    return format_html(
        '<svg class="swatch" viewBox="0 0 9 9" aria-hidden="true">'
        '<rect class="series-{}" width="9" height="9"/></svg>',
        position % 6 + 1,
    )


@register.simple_tag
def queue_bar(row: PoolRow) -> SafeString:
    """Calls that wait, by class, as parts of all that wait."""
    waiting = row.queued or 1
    parts = {klass.label: row.pool.queued.get(klass, 0) / waiting for klass in PriorityClass}
    return bar(words.queue_words(row) or "Nothing waits", **parts)


@register.simple_tag
def share_bar(row: TenantRow) -> SafeString:
    return bar(words.share_words(row), received=row.share, mark=row.fair_share)


@register.filter
def saturation(value: float | None) -> str:
    """The class of a bar: above 90 % it warns."""
    return "warn" if value is not None and value >= words.FULL else "fill"


@register.filter
def fullness(replica: ReplicaSecond) -> float | None:
    return replica.in_flight / replica.slots if replica.slots else None


@register.simple_tag
def batch_bar(batch: BatchSecond) -> SafeString:
    total = batch.total or 1
    label = f"{batch.completed} of {batch.total} completed, {batch.failed} failed"
    return bar(label, done=batch.completed / total, bad=batch.failed / total)


@register.simple_tag
def lane(step: Step, span_s: float) -> SafeString:
    """One bar of a call's waterfall."""
    return format_html(
        '<svg viewBox="0 0 1000 22" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="{}" x="{}" y="6" width="{}" height="10"/></svg>',
        f"{step.name}: {step.words}",
        step.kind,
        f"{1000 * step.start_s / span_s:.1f}",
        f"{max(2.0, 1000 * step.length_s / span_s):.1f}",
    )


@register.filter
def who(actor: str) -> str:
    """A person by the name alone; commands, keys and tasks say what they are."""
    return actor.removeprefix(f"{ActorKind.USER}:")


@register.filter
def can_undo(entry: AuditEntry) -> bool:
    """Not where something newer, as its own undo is, would be lost. See tenants.services.undo."""
    return entry.action in UNDOABLE and not getattr(entry, "superseded", False)


@register.filter
def tail(call_id: str) -> str:
    """The end of an id, where ids made in the same minute differ."""
    return f"…{call_id[-10:]}" if len(call_id) > 12 else call_id


@register.simple_tag
def outcome(name: str) -> SafeString:
    return state(OUTCOMES.get(name, "idle"), name)


@register.simple_tag
def limit_bar(one: LimitState | CreditUse) -> SafeString:
    used = "warn" if one.is_near else "used"
    return bar(one.name, **{used: one.used_ratio, "held": one.held_ratio})


@register.filter
def clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")


@register.simple_tag
def level_bar(label: str, ratio: float | None) -> SafeString:
    return bar(label, **{saturation(ratio): ratio})


@register.filter
def series_rows(facts: FleetFacts, column: str) -> list[tuple[float, list[float | None]]]:
    """The table beside a chart: every third slice, newest first."""
    if not facts.series:
        return []
    at = facts.series[0].at
    columns = [getattr(one, column) for one in facts.series]
    return [
        (at[i], [values[i] for values in columns])
        for i in range(len(at) - 1, -1, -3)
        if any(values[i] is not None for values in columns)
    ]
