from __future__ import annotations

import pytest
from django.test import Client

from tests import factories


@pytest.fixture
def cast(db: None) -> factories.Cast:
    return factories.cast()


@pytest.fixture
def client_of(cast: factories.Cast):  # type: ignore[no-untyped-def]
    """A signed-in browser of one of the cast, without the CSRF check."""

    def signed_in(name: str) -> Client:
        client = Client()
        client.force_login(getattr(cast, name), "django.contrib.auth.backends.ModelBackend")
        return client

    return signed_in
