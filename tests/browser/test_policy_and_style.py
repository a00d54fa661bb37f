"""What the browser itself objects to, and what stays readable on a phone and behind a dialog."""

from __future__ import annotations

import itertools

import pytest
from playwright.sync_api import Page, expect

from gateway.core.reasons import Outcome, Reason
from gateway.core.records import AttemptRecord
from tenants.services import ledger, members, organizations
from tests import factories
from tests.browser.conftest import Visit
from tests.fakes.live_events import LiveEvents

OPERATOR_PATHS = ("/", "/calls/", "/calls/call-1/", "/batches/", "/audit/", "/tenants/acme/policy/")
MEMBER_PATHS = ("/", "/calls/", "/calls/call-1/", "/batches/", "/keys/")
ACCOUNT_PATHS = ("/accounts/password/change/", "/accounts/2fa/", "/nothing/", "/api/v1/docs")
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


def failed_call() -> None:
    attempt = AttemptRecord(1, "gpu-b1", 0.01, 0.5, 0.0, reason=Reason.UPSTREAM_ERROR)
    record = factories.call_record(
        "call-1",
        outcome=Outcome.FAILED,
        reason=Reason.UPSTREAM_ERROR,
        status=502,
        ttft_s=None,
        attempts=(attempt,),
    )
    ledger.insert_calls([record])


def violations(page: Page) -> list[str]:
    page.wait_for_load_state("load")
    found: list[str] = page.evaluate("window.violations")
    return found


def test_the_watch_sees_an_inline_style(visit: Visit, cast: factories.Cast) -> None:
    """Else the next test could not fail."""
    visitor = visit()
    visitor.page.add_init_script(WATCH)
    page = visitor.go("/accounts/login/")
    page.evaluate("document.body.setAttribute('style', 'color: red')")
    page.wait_for_function("window.violations.length > 0")
    assert violations(page)[0].startswith("style-src")
    visitor.complaints.clear()


@pytest.mark.parametrize("name", ["olga", "alice"])
def test_no_page_breaks_the_content_security_policy(
    name: str, visit: Visit, events: LiveEvents
) -> None:
    failed_call()
    visitor = visit()
    visitor.page.add_init_script(WATCH)
    visitor.sign_in(name)
    for path in (*(OPERATOR_PATHS if name == "olga" else MEMBER_PATHS), *ACCOUNT_PATHS):
        assert violations(visitor.go(path)) == [], path
    visitor.complaints[:] = [text for text in visitor.complaints if "404" not in text]


def test_the_dialog_of_a_weight_breaks_no_policy(visit: Visit, events: LiveEvents) -> None:
    visitor = visit()
    visitor.page.add_init_script(WATCH)
    page = visitor.sign_in("olga")
    page.click("#tenant-acme >> text=Change")
    page.fill("dialog #weight", "3")
    page.fill("dialog #why", "contract")
    page.click("dialog >> text=Review change")
    page.click("dialog >> text=Apply change")
    expect(page.locator("dialog")).to_contain_text("Saved")
    assert violations(page) == []


def test_the_list_behind_an_undo_shows_it(visit: Visit, cast: factories.Cast) -> None:
    organizations.set_weight(slug="acme", weight=3, actor=factories.TESTER, why="contract")
    visitor = visit()
    visitor.sign_in("olga")
    page = visitor.go("/audit/")
    rows = page.locator("tbody tr")
    before = rows.count()
    page.click("[aria-label^='Undo entry']")
    expect(page.locator("dialog")).to_contain_text("3 to 1")
    expect(rows).to_have_count(before + 1)
    expect(rows.first).to_contain_text("undoes")


def test_the_words_of_a_step_fit_on_a_phone(visit: Visit, cast: factories.Cast) -> None:
    failed_call()
    visitor = visit(viewport={"width": 390, "height": 844})
    visitor.sign_in("alice")
    page = visitor.go("/calls/call-1/")
    words = page.locator(".wf .t", has_text="upstream_error")
    place, panel = words.bounding_box(), page.locator(".panel:has(.wf)").bounding_box()
    assert place is not None
    assert panel is not None
    assert int(words.evaluate("one => one.scrollWidth - one.clientWidth")) <= 0
    assert place["x"] + place["width"] <= panel["x"] + panel["width"]
    assert place["height"] < 40  # one line


def test_an_organization_is_chosen_in_the_bar(visit: Visit, cast: factories.Cast) -> None:
    members.add(slug="rival", username="alice", role="viewer", actor=factories.TESTER)
    visitor = visit(viewport={"width": 390, "height": 844})
    page = visitor.sign_in("alice")
    page.click("summary:has-text('Acme')")
    page.click("text=Go to Rival")
    expect(page.locator("h1")).to_have_text("Rival")
    # the page that is left may ask once more, and is told that it is of another organization
    visitor.complaints[:] = [text for text in visitor.complaints if "409" not in text]


def test_times_below_a_chart_lie_flat_on_a_phone(visit: Visit, events: LiveEvents) -> None:
    page = visit(viewport={"width": 390, "height": 2600}).sign_in("olga")
    page.locator("[data-figure=ttft]").scroll_into_view_if_needed()
    ticks = page.locator("[data-figure=ttft] .xtick text")
    expect(ticks.first).to_be_visible()
    boxes = [box for one in ticks.all() if (box := one.bounding_box())]
    assert all(box["height"] < 20 for box in boxes)
    assert all(a["x"] + a["width"] < b["x"] for a, b in itertools.pairwise(boxes))
    values = page.locator("[data-figure=ttft] .ytick text").all()
    lowest = max(box["y"] + box["height"] for one in values if (box := one.bounding_box()))
    assert lowest <= min(box["y"] for box in boxes), "the lowest value stands above the times"
