from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.models import Pool
from gateway.services import aliases, pools
from gateway.services.terms import PoolTerms
from tests import factories
from tests.factories import TESTER
from tests.workers.batches import MODEL, Desk
from workers import messages
from workers.settings import WorkersSettings
from workers.storage import Storage


@pytest.fixture
def own(settings: Any, tmp_path: Path) -> WorkersSettings:
    """Settings whose files are in a directory of the test."""
    settings.FAIRWAY_WORKERS = replace(settings.FAIRWAY_WORKERS, var_dir=tmp_path)
    changed: WorkersSettings = settings.FAIRWAY_WORKERS
    return changed


@pytest.fixture
def storage(own: WorkersSettings) -> Storage:
    return Storage(own.files_dir)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Messages that were sent; no broker is asked."""
    found: list[tuple[str, str]] = []
    monkeypatch.setattr(messages, "send", lambda task, batch: found.append((task, batch)))
    return found


@pytest.fixture
def desk(transactional_db: None, storage: Storage, sent: Any) -> Desk:
    """A tenant with a key and a model, whose files and batches are made by the services."""
    pools.create(slug="sim", terms=PoolTerms(), actor=TESTER, why="test")
    aliases.assign(name=MODEL, pool="sim", upstream_model=MODEL, actor=TESTER, why="test")
    assert Pool.objects.count() == 1
    factories.organization("acme")
    return Desk(storage, factories.key("acme", scopes=("batch",)), sent)
