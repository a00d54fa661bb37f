from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from tests import factories
from tests.dashboard.pages_server import PagesServer, pages_server

BACKEND = "allauth.account.auth_backends.AuthenticationBackend"


@pytest.fixture
def cast(db: None) -> factories.Cast:
    return factories.cast()


@pytest.fixture
def client_of(cast: factories.Cast) -> Callable[[str], Client]:
    """A signed-in browser of one of the cast, without the CSRF check."""

    def signed_in(name: str) -> Client:
        client = Client()
        client.force_login(getattr(cast, name), BACKEND)
        return client

    return signed_in


@pytest.fixture
def live_cast(transactional_db: None) -> factories.Cast:
    """The cast in a database that the server's threads see too."""
    return factories.cast()


@pytest.fixture
def server(live_cast: factories.Cast) -> Iterator[PagesServer]:
    with pages_server() as running:
        yield running


@pytest.fixture
def short_recheck(settings: Any) -> None:
    settings.FAIRWAY_DASHBOARD = replace(settings.FAIRWAY_DASHBOARD, access_recheck_s=0.1)
