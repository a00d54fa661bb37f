"""From a call in the gateway to the operator's screen, with nothing in between replaced."""

from __future__ import annotations

import json
import statistics
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.installation import MODEL, Installation, installed

pytestmark = pytest.mark.alone

ROUNDS = 7
HELLO = [{"role": "user", "content": "hello"}]


def refused_call(place: Installation) -> None:
    """A call that is larger than any limit: refused at once and counted as its tenant's."""
    body = json.dumps({"model": MODEL, "max_tokens": 10**6, "messages": HELLO}).encode()
    request = urllib.request.Request(f"{place.url}/v1/chat/completions", body)
    request.add_header("authorization", f"Bearer {place.api_key}")
    request.add_header("content-type", "application/json")
    try:
        urllib.request.urlopen(request, timeout=10)
    except urllib.error.HTTPError as refusal:
        refusal.close()


def operator_page(browser: Browser, place: Installation) -> Page:
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    page.goto(f"{place.url}/accounts/login/")
    page.fill("#id_login", place.facts["operator"]["username"])
    page.fill("#id_password", place.facts["operator"]["password"])
    page.click("button:has-text('Sign in')")
    expect(page.locator("#live")).to_contain_text("Live, updated")
    return page


def test_a_refused_call_is_on_the_screen_within_one_and_a_half_seconds(
    browser: Browser, tmp_path: Path
) -> None:
    with installed(tmp_path) as place:
        place.serve()
        page = operator_page(browser, place)
        shown = page.locator("#tenant-acme [data-label=Calls]")
        delays = []
        for _ in range(ROUNDS):
            before = shown.inner_text()
            sent_at = time.monotonic()
            refused_call(place)
            expect(shown).not_to_have_text(before)
            delays.append(time.monotonic() - sent_at)
        expect(page.locator("#tenant-acme")).to_contain_text("cannot_fit")
        page.close()
    assert statistics.median(delays) < 1.5
