"""Filters of the pages: numbers, classes, reasons, moments, bars."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dashboard import figures, numbers, words
from dashboard.live.facts import FleetFacts, PoolRow, TenantRow
from gateway.core.events import BatchSecond, ReplicaSecond
from gateway.core.priority import PriorityClass
from gateway.core.reasons import REASONS, Reason

register = template.Library()

for name in ("duration", "count", "percent", "plain"):
    register.filter(name, getattr(numbers, name))
register.filter("fleet_sentence", words.fleet_sentence)
register.filter("tenant_sentence", words.tenant_sentence)
register.filter("share_words", words.share_words)
register.filter("queue_words", words.queue_words)
register.filter("ttft_words", figures.ttft_words)
register.filter("share_chart_words", figures.share_words)


@register.filter
def many(number: int, noun: str) -> str:
    return numbers.many(number, noun)


@register.filter
def class_mark(value: int) -> SafeString:
    label = PriorityClass(value).label
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
    return bar(words.share_words(row), received=row.share, mark=row.weight_share)


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
