"""What people do with the pages, in a real browser."""

from __future__ import annotations

import re
import time

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from gateway.core.events import ConfigApplied
from tenants.models import ApiKey, Organization
from tenants.services import ledger
from tests import factories
from tests.browser.conftest import Visit
from tests.dashboard.pages_server import PagesServer
from tests.fakes.live_events import LiveEvents

OPERATOR_PATHS = ["/", "/calls/", "/calls/call-1/", "/batches/", "/audit/", "/tenants/acme/policy/"]
MEMBER_PATHS = ["/", "/calls/", "/calls/call-1/", "/batches/", "/keys/"]


def violations(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {[node['html'][:90] for node in one['nodes'][:3]]}" for one in found]


def sideways(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


def test_sign_in_and_out(visit: Visit, cast: factories.Cast) -> None:
    visitor = visit()
    page = visitor.sign_in("olga")
    expect(page.locator("h1")).to_have_text("Fleet")
    page.click("summary:has-text('olga')")
    page.click("text=Sign out")
    expect(page.locator("h1")).to_have_text("Sign in")


def test_a_wrong_password_is_told(visit: Visit, cast: factories.Cast) -> None:
    visitor = visit()
    page = visitor.go("/accounts/login/")
    page.fill("#id_login", "olga")
    page.fill("#id_password", "wrong")
    page.click("button:has-text('Sign in')")
    expect(page.locator("[role=alert]")).to_contain_text("Not signed in")


@pytest.mark.alone
def test_figures_arrive_live(visit: Visit, server: PagesServer, events: LiveEvents) -> None:
    page = visit().sign_in("olga")
    server.send(events.second(time.time()))
    expect(page.locator("#tenant-acme")).to_contain_text("calls")
    expect(page.locator("#live")).to_contain_text("Live, updated")
    shown = page.locator(".tile:has-text('Tokens out') dd")
    delays = []
    for _ in range(3):
        before = shown.inner_text()
        sent_at = time.monotonic()
        server.send(events.second(time.time()))
        expect(shown).not_to_have_text(before)
        delays.append(time.monotonic() - sent_at)
    assert sorted(delays)[1] < 1.5


def test_charts_are_drawn_with_names_at_the_lines(visit: Visit, events: LiveEvents) -> None:
    page = visit(viewport={"width": 1440, "height": 2200}).sign_in("olga")
    chart = page.locator("[data-figure=ttft]")
    expect(chart.locator("svg .scatterlayer .trace")).to_have_count(2)
    expect(chart).to_contain_text("Acme")
    expect(page.locator("[data-figure=share]")).to_contain_text("Rival")


def test_pause_holds_back_and_resume_shows(
    visit: Visit, server: PagesServer, events: LiveEvents
) -> None:
    page = visit().sign_in("olga")
    server.send(events.second(time.time()))
    expect(page.locator("#live")).to_contain_text("Live, updated")
    page.keyboard.press("p")
    expect(page.locator("#live")).to_contain_text("Paused")
    shown = page.locator(".tile:has-text('Tokens out') dd")
    before = shown.inner_text()
    server.send(events.second(time.time()))
    expect(page.locator("#live")).to_have_text(re.compile(r"Paused, [12] new"))  # first one too
    assert shown.inner_text() == before
    page.keyboard.press("p")
    expect(shown).not_to_have_text(before)


def test_a_page_without_new_figures_says_since_when(visit: Visit, events: LiveEvents) -> None:
    page = visit().sign_in("olga")
    expect(page.locator("#stale")).to_contain_text("Stale since")
    expect(page.locator("#live")).to_have_attribute("data-state", "stale")


def test_a_weight_is_changed_seen_in_effect_and_undone(
    visit: Visit, server: PagesServer, events: LiveEvents
) -> None:
    page = visit().sign_in("olga")
    page.click("#tenant-acme >> text=Change")
    page.fill("dialog #weight", "3")
    page.fill("dialog #why", "contract of May")
    page.click("dialog >> text=Review change")
    expect(page.locator("dialog")).to_contain_text("1 to 3")
    page.click("dialog >> text=Apply change")
    note = page.locator("dialog [data-awaits-version]")
    expect(note).to_contain_text("within a second")
    version = int(note.get_attribute("data-awaits-version") or 0)
    server.send(ConfigApplied(time.time(), version))
    expect(page.locator("dialog")).to_contain_text("In effect")
    expect(page.locator("#tenant-acme")).to_contain_text("3, interactive")
    expect(page.locator("#latest-audit")).to_contain_text("contract of May")
    assert Organization.objects.get(slug="acme").weight == 3

    page.click("dialog >> text=Undo weight")
    expect(page.locator("dialog")).to_contain_text("3 to 1")
    server.send(ConfigApplied(time.time(), version + 1))
    expect(page.locator("#tenant-acme")).to_contain_text("1, interactive")
    assert Organization.objects.get(slug="acme").weight == 1


def test_a_weight_is_changed_without_scripts(visit: Visit, cast: factories.Cast) -> None:
    page = visit(java_script_enabled=False).sign_in("olga")
    page.click("#tenant-acme >> text=Change")
    page.fill("#weight", "4")
    page.fill("#why", "no scripts")
    page.click("text=Review change")
    page.click("text=Apply change")
    expect(page.locator("main")).to_contain_text("Applied at version")
    assert Organization.objects.get(slug="acme").weight == 4


def test_a_key_is_created_shown_once_and_disabled(visit: Visit, cast: factories.Cast) -> None:
    page = visit().sign_in("alice")
    page.click("main >> text=Create key")
    page.fill("#label", "ci-bot")
    page.click("form >> text=Create key")
    secret = page.locator("#secret").inner_text()
    assert re.fullmatch(r"fw-\w{8}-\w{49}", secret)
    page.click("text=I stored it")
    expect(page.locator("main")).to_contain_text("ci-bot")
    assert secret not in page.content()
    page.click("[aria-label='Disable ci-bot']")
    expect(page.locator("[role=status]")).to_contain_text("is disabled")
    assert not ApiKey.objects.get().enabled


@pytest.mark.parametrize("system", ["light", "dark"])
def test_the_theme_follows_the_system_until_one_is_chosen(
    system: str, visit: Visit, cast: factories.Cast
) -> None:
    page = visit(color_scheme=system).sign_in("olga")
    root = page.locator("html")
    expect(root).to_have_attribute("data-theme", system)
    other = "light" if system == "dark" else "dark"
    page.click(f"[data-theme-choice={other}]")
    expect(root).to_have_attribute("data-theme", other)
    page.reload()
    expect(root).to_have_attribute("data-theme", other)


@pytest.mark.parametrize(
    ("name", "scheme", "width"),
    [
        ("olga", "light", 1600),
        ("olga", "dark", 390),
        ("alice", "dark", 1600),
        ("alice", "light", 390),
    ],
)
def test_every_page_is_accessible_and_fits(
    name: str, scheme: str, width: int, visit: Visit, events: LiveEvents
) -> None:
    ledger.insert_calls([factories.call_record("call-1")])
    factories.key("acme", label="ci-bot")
    visitor = visit(color_scheme=scheme, viewport={"width": width, "height": 900})
    visitor.sign_in(name)
    for path in OPERATOR_PATHS if name == "olga" else MEMBER_PATHS:
        page = visitor.go(path)
        page.wait_for_load_state("load")
        assert violations(page) == [], path
        assert sideways(page) <= 0, path


def test_the_sign_in_page_is_accessible(visit: Visit, cast: factories.Cast) -> None:
    page = visit(viewport={"width": 390, "height": 800}).go("/accounts/login/")
    assert violations(page) == []
    assert sideways(page) <= 0


PAYLOADS = [
    "<img src=x onerror=alert(1)>",
    '"><script>alert(1)</script>',
    "{{7*7}}<svg onload=alert(1)>",
]


def test_markup_in_names_stays_text(
    visit: Visit, server: PagesServer, events: LiveEvents, cast: factories.Cast
) -> None:
    """S19: tenant names, key names, reasons; on pages, in live updates and in charts."""
    for n, payload in enumerate(PAYLOADS):
        factories.organization(f"mallory{'abc'[n]}", name=payload)
        factories.key("acme", label=payload)
        events.habits[f"mallory{'abc'[n]}"] = events.habits["rival"]
    visitor = visit(viewport={"width": 1440, "height": 2200})
    page = visitor.sign_in("olga")
    server.send(*events.history(time.time(), 30))
    expect(page.locator("#tenant-mallorya")).to_contain_text("<img src=x")
    expect(page.locator("[data-figure=ttft] svg .trace").first).to_be_attached(timeout=15_000)
    assert page.locator("img, main script").count() == 0
    page.click("summary:has-text('olga')")
    page.click("text=Sign out")
    page.wait_for_url("**/accounts/login/")
    visitor.sign_in("alice")
    page = visitor.go("/keys/")
    expect(page.locator("main")).to_contain_text("<img src=x")
    assert page.locator("img, main script").count() == 0


def test_the_keyboard_reaches_the_content_first(visit: Visit, cast: factories.Cast) -> None:
    page = visit().sign_in("olga")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
