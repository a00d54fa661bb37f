"""A real Chromium before a real server with the cast and a fake gateway's figures."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.core.cache import cache
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests import factories
from tests.dashboard.pages_server import PagesServer, pages_server
from tests.fakes.live_events import LiveEvents

os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # playwright's loop runs in this thread
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
HISTORY_S = 120
expect.set_options(timeout=20_000)  # a loaded machine; what must be quick is measured


@pytest.fixture(scope="session")
def browser(chromium_path: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium_path, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture
def cast(transactional_db: None) -> factories.Cast:
    return factories.cast()


@pytest.fixture
def server(cast: factories.Cast) -> Iterator[PagesServer]:
    cache.clear()  # all tests sign in from one address: their attempts are counted there
    with pages_server() as running:
        yield running


@pytest.fixture
def events(server: PagesServer) -> LiveEvents:
    """Two minutes of figures have been sent; tests send what comes next."""
    made = LiveEvents()
    server.send(*made.history(time.time(), HISTORY_S))
    return made


@dataclass
class Visitor:
    """A page and all that it complained about."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)

    def go(self, path: str) -> Page:
        self.page.goto(f"{self.url}{path}")
        return self.page

    def sign_in(self, name: str) -> Page:
        self.go("/accounts/login/")
        self.page.fill("#id_login", name)
        self.page.fill("#id_password", factories.PASSWORD)
        self.page.click("button:has-text('Sign in')")
        self.page.wait_for_url(f"{self.url}/")
        return self.page


Visit = Callable[..., Visitor]


@pytest.fixture
def visit(browser: Browser, server: PagesServer) -> Iterator[Visit]:
    """Makes visitors. At the end none may have complained: no script error, no CSP violation, no
    refused request."""
    contexts: list[BrowserContext] = []
    visitors: list[Visitor] = []

    def arrive(**options: Any) -> Visitor:
        options.setdefault("viewport", {"width": 1440, "height": 1000})
        context = browser.new_context(**options)
        contexts.append(context)
        visitor = Visitor(context.new_page(), server.url)
        note = visitor.complaints.append
        visitor.page.on("pageerror", lambda error: note(str(error)))
        visitor.page.on("console", lambda line: note(line.text) if line.type == "error" else None)
        visitor.page.on("dialog", lambda dialog: note(f"dialog {dialog.message}"))
        visitors.append(visitor)
        return visitor

    yield arrive
    for context in contexts:
        context.close()
    assert [visitor.complaints for visitor in visitors if visitor.complaints] == []
