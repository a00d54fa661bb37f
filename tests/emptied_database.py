"""Lets Django empty the test database between tests that commit.

Emptying deletes audit rows, which the database's triggers refuse, and the rows that the migration
put there. While it runs the triggers are away; afterwards they and those rows are back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.backends.base.operations import BaseDatabaseOperations

from tenants import default_plans, triggers
from tenants.models import ConfigVersion, Plan, PlanLimit


@pytest.fixture(scope="session", autouse=True)
def database_can_be_emptied() -> Iterator[None]:
    original = BaseDatabaseOperations.execute_sql_flush

    def emptied(self: BaseDatabaseOperations, sql_list: list[str]) -> Any:
        with transaction.atomic():
            triggers.remove(connection)
        result = original(self, sql_list)
        with transaction.atomic():
            default_plans.seed(Plan, PlanLimit)
            ConfigVersion.objects.get_or_create(id=1)
            triggers.install(connection)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseDatabaseOperations, "execute_sql_flush", emptied)
        yield
