from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests import factories
from tests.dashboard.pages_server import PagesServer, pages_server
from tests.people import cast, client_of

__all__ = ["cast", "client_of"]


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
