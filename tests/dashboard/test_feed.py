"""The feed: newest first, nothing piles up, a database that is away does no harm."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from django.db import OperationalError

from dashboard.live.audience import OPERATORS, MembersOf
from dashboard.live.facts import Tenancy
from dashboard.live.feed import LiveFeed, Subscription
from dashboard.live.messages import Moment
from dashboard.settings import DashboardSettings
from gateway.core.events import ConfigApplied
from tests.dashboard.test_live_state import NOW, second, state, tenancy
from tests.fakes.live_events import LiveEvents


def known(last: Tenancy) -> Tenancy:
    return tenancy(acme=2, rival=1)


@pytest.fixture
async def feed() -> AsyncIterator[LiveFeed]:
    made = LiveFeed(DashboardSettings(), read_tenancy=known)
    await made.start()
    yield made
    await made.stop()


async def newest(subscription: Subscription, at: float | None) -> Moment:
    async with asyncio.timeout(20):
        while True:
            moment = await subscription.next()
            if moment.facts.at == at:
                return moment


async def test_a_slow_browser_gets_the_newest_and_only_that(feed: LiveFeed) -> None:
    """Row 79: what it missed is not kept for it."""
    with feed.subscribe(OPERATORS) as fast, feed.subscribe(OPERATORS) as slow:
        for n in range(5):
            feed.on_event(second(NOW + n))
            await newest(fast, NOW + n)
        async with asyncio.timeout(20):
            moment = await slow.next()
    assert moment.facts.at == NOW + 4


async def test_who_comes_later_gets_the_last_moment_at_once(feed: LiveFeed) -> None:
    with feed.subscribe(OPERATORS) as first:
        feed.on_event(second(NOW))
        await newest(first, NOW)
        with feed.subscribe(OPERATORS) as late:
            assert (await late.next()).facts.at == NOW


async def test_each_audience_gets_its_own_cut(feed: LiveFeed) -> None:
    with feed.subscribe(MembersOf("acme")) as own:
        feed.on_event(LiveEvents().second(NOW))
        moment = await newest(own, NOW)
    assert moment.facts.owner == "acme"
    assert "rival" not in json.dumps(moment.panels).lower()


async def test_nobody_watching_costs_no_drawing(feed: LiveFeed) -> None:
    with feed.subscribe(OPERATORS) as one:
        feed.on_event(second(NOW))
        await newest(one, NOW)
    feed.on_event(second(NOW + 1))
    with feed.subscribe(MembersOf("rival")) as other:
        await newest(other, NOW + 1)
    assert set(feed._moments) == {MembersOf("rival")}


async def test_events_pages_do_not_show_wake_nobody(feed: LiveFeed) -> None:
    feed.on_event(second(NOW))
    feed.on_event("not for pages")  # type: ignore[arg-type]
    assert len(feed._inbox) <= 1


async def test_a_database_that_is_away_leaves_the_last_tenancy() -> None:
    answers = [tenancy(acme=1)]

    def read(last: Tenancy) -> Tenancy:
        if answers:
            return answers.pop()
        raise OperationalError("gone")

    feed = LiveFeed(DashboardSettings(), read_tenancy=read)
    await feed.start()
    with feed.subscribe(OPERATORS) as subscription:
        feed.on_event(second(NOW))
        await newest(subscription, NOW)
        feed.on_event(second(NOW + 1))
        moment = await newest(subscription, NOW + 1)
    await feed.stop()
    assert [row.policy.slug for row in moment.facts.tenants] == ["acme"]


def moment(seq: int, at: float, **panels: str) -> Moment:
    return Moment(seq, state(second(at)).facts(tenancy()), panels, {})


def test_a_message_holds_what_changed_since_the_last_one() -> None:
    first, then = moment(1, NOW, a="x", b="y"), moment(2, NOW + 1, a="x", b="z")
    assert json.loads(then.after(first, "light", NOW + 1))["panels"] == {"b": "z"}
    assert json.loads(then.after(None, "light", NOW + 1))["panels"] == {"a": "x", "b": "z"}


def test_a_message_says_how_old_its_figures_are() -> None:
    assert json.loads(moment(1, NOW).after(None, "light", NOW + 2.5))["age_s"] == 2.5


def test_a_message_before_any_figures_has_no_age() -> None:
    empty = Moment(1, state(ConfigApplied(NOW, 3)).facts(tenancy()), {}, {})
    assert json.loads(empty.after(None, "light", NOW))["age_s"] is None
