"""Two tabs of one person, and two clicks on one button."""

from __future__ import annotations

import time
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tenants.models import ApiKey, AuditEntry, Organization
from tenants.services import members
from tests import factories
from tests.browser.conftest import Visit, Visitor
from tests.dashboard.conftest import short_recheck
from tests.dashboard.pages_server import PagesServer
from tests.fakes.live_events import LiveEvents

__all__ = ["short_recheck"]


def two_tabs(visit: Visit) -> tuple[Visitor, Page]:
    """Of Alice, both at Acme's overview."""
    members.add(slug="rival", username="alice", role="owner", actor=factories.TESTER)
    visitor = visit()
    visitor.sign_in("alice")
    other = visitor.page.context.new_page()
    other.goto(f"{visitor.url}/")
    return visitor, other


def switch_to_rival(page: Page) -> None:
    page.click("summary:has-text('Acme')")
    page.click("text=Go to Rival")
    expect(page.locator("h1")).to_have_text("Rival")


def forget_conflicts(visitor: Visitor) -> None:
    """The browser itself logs an answer of 409."""
    visitor.complaints[:] = [text for text in visitor.complaints if "409" not in text]


def test_a_key_is_made_where_the_page_says_or_nowhere(visit: Visit, cast: factories.Cast) -> None:
    visitor, other = two_tabs(visit)
    page = visitor.go("/keys/")
    page.fill("#label", "ci-bot")
    switch_to_rival(other)
    page.click("form >> text=Create key")
    expect(page.locator("main")).to_contain_text("You have switched to Rival in another tab.")
    assert not ApiKey.objects.exists()
    page.click("text=Back to Acme")
    expect(page.locator("h1")).to_have_text("Acme")
    forget_conflicts(visitor)


def test_an_overview_left_behind_says_so(
    short_recheck: None, visit: Visit, server: PagesServer, events: LiveEvents
) -> None:
    visitor, other = two_tabs(visit)
    page = visitor.page
    server.send(events.second(time.time()))
    expect(page.locator("#live")).to_contain_text("Live, updated")
    switch_to_rival(other)
    expect(page.locator("#live")).to_have_text("Switched")
    expect(page.locator("#stale")).to_contain_text("another organization in another tab")
    expect(page.locator("h1")).to_have_text("Acme")
    page.evaluate("document.body.dispatchEvent(new CustomEvent('fairway:tick'))")
    limits = page.locator("section:has(#limits-title) .body")
    expect(limits).to_contain_text("You have switched to Rival in another tab.")
    page.click("text=Load the page again")
    expect(page.locator("h1")).to_have_text("Rival")
    forget_conflicts(visitor)


@pytest.mark.parametrize("delay_s", [0.0, 0.6])
@pytest.mark.parametrize("place", ["dialog", "main"])
def test_two_clicks_apply_once_and_show_the_result(
    place: str, delay_s: float, visit: Visit, cast: factories.Cast, events: LiveEvents
) -> None:
    visitor = visit()
    page = visitor.sign_in("olga")
    if place == "dialog":
        page.click("#tenant-acme >> text=Change")
    else:
        visitor.go("/tenants/acme/policy/")
    page.fill(f"{place} #weight", "3")
    page.fill(f"{place} #why", "contract")
    page.click(f"{place} >> text=Review change")
    expect(page.locator(place)).to_contain_text("1 to 3")
    posts = posts_of(page, delay_s)
    page.dblclick(f"{place} >> text=Apply change")
    expect(page.locator(place)).to_contain_text("Saved")
    page.wait_for_timeout(300)
    expect(page.locator(place)).to_contain_text("Undo weight")
    assert len(posts) == 1
    assert Organization.objects.get(slug="acme").weight == 3


def test_a_form_is_sent_once_while_its_answer_is_awaited(
    visit: Visit, cast: factories.Cast
) -> None:
    visitor = visit()
    visitor.sign_in("olga")
    page = visitor.go("/tenants/acme/policy/")
    page.fill("#weight", "3")
    page.fill("#why", "contract")
    page.click("text=Review change")
    expect(page.locator("main")).to_contain_text("1 to 3")
    posts = posts_of(page, 0.6)
    page.evaluate("const b = document.querySelector('[value=apply]'); b.click(); b.click()")
    expect(page.locator("main")).to_contain_text("Saved")
    page.wait_for_timeout(300)
    expect(page.locator("main")).to_contain_text("Undo weight")
    page.click("text=Undo weight")
    expect(page.locator("main")).to_contain_text("3 to 1")
    assert len(posts) == 2
    assert AuditEntry.objects.filter(action="tenant.set_weight").count() == 2


def posts_of(page: Page, delay_s: float) -> list[str]:
    """Those sent from now on; each is held back for a while."""
    posts: list[str] = []

    def slow(route: Route, request: Any) -> None:
        if request.method == "POST":
            posts.append(request.url)
            time.sleep(delay_s)
        route.continue_()

    page.route("**/*", slow)
    return posts
