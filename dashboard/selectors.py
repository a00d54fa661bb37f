"""What pages read: tenancy for the live feed, the feed's facts for the first drawing of a page."""

from __future__ import annotations

from collections import Counter
from typing import cast

from django.conf import settings
from django.http import HttpRequest

from dashboard.live.audience import Audience
from dashboard.live.facts import FleetFacts, Policy, Tenancy
from dashboard.live.feed import NO_TENANCY, LiveFeed
from dashboard.live.state import LiveState
from gateway.core.priority import PriorityClass
from gateway.models import Alias
from tenants.selectors.organizations import organizations
from tenants.snapshot import current_version


def tenancy(last: Tenancy = NO_TENANCY) -> Tenancy:
    """``last`` unless something was changed since. One query, two after a change."""
    version = current_version()
    if version == last.version:
        return last
    rows = organizations().order_by("pk")
    times = Counter(row.name for row in rows)
    policies = {
        row.slug: Policy(
            slug=row.slug,
            name=row.name if times[row.name] == 1 else f"{row.name} ({row.slug})",
            weight=row.weight,
            highest_class=PriorityClass(row.highest_class),
            suspended=row.suspended,
            position=position,
        )
        for position, row in enumerate(rows)
    }
    return Tenancy(version, dict(sorted(policies.items())))


def a_model_name() -> str | None:
    """Any model that is served, for examples."""
    return Alias.objects.order_by("name").values_list("name", flat=True).first()


def feed_of(request: HttpRequest) -> LiveFeed | None:
    """The process's live feed; None where pages run without one."""
    scope = getattr(request, "scope", {})
    return cast(LiveFeed | None, scope.get("live"))


def live_facts(request: HttpRequest, audience: Audience) -> FleetFacts:
    feed = feed_of(request)
    if feed is not None:
        return feed.facts(audience)
    return audience.cut(LiveState(settings.FAIRWAY_DASHBOARD).facts(tenancy()))
