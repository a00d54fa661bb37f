"""Fixtures of the cast and their browsers, for every package whose pages or API they use."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from tests import factories

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
