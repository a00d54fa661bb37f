"""Which rules does the database itself keep? The slugs of pools and replicas never change.

Written for SQLite and PostgreSQL; run by the migration. A later migration that rebuilds one of
these tables on SQLite drops its trigger and must install it again.
"""

from __future__ import annotations

from django.db.backends.base.base import BaseDatabaseWrapper

TABLES = ("gateway_pool", "gateway_replica")
_WORDS = "a slug never changes"
_REFUSED = "integrity_constraint_violation"


def install(connection: BaseDatabaseWrapper) -> None:
    make = _sqlite if connection.vendor == "sqlite" else _postgresql
    with connection.cursor() as cursor:
        for table in TABLES:
            for statement in make(table):
                cursor.execute(statement)


def _sqlite(table: str) -> tuple[str, ...]:
    return (
        f"""CREATE TRIGGER {table}_slug_fixed BEFORE UPDATE OF slug ON {table}
        WHEN OLD.slug <> NEW.slug BEGIN SELECT RAISE(ABORT, '{_WORDS}'); END""",
    )


def _postgresql(table: str) -> tuple[str, ...]:
    return (
        f"""CREATE OR REPLACE FUNCTION {table}_slug_fixed() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION '{_WORDS}' USING ERRCODE = '{_REFUSED}'; END $$""",
        f"""CREATE TRIGGER {table}_slug_fixed BEFORE UPDATE OF slug ON {table} FOR EACH ROW
        WHEN (OLD.slug <> NEW.slug) EXECUTE FUNCTION {table}_slug_fixed()""",
    )
