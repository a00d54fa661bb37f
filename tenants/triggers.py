"""Which rules does the database itself keep? The audit trail only grows; a slug never changes.

Written for SQLite and PostgreSQL. ``install`` is run by the migration; ``remove`` lets a test
database be emptied. A later migration that rebuilds one of these tables on SQLite drops its
triggers and must install them again.
"""

from __future__ import annotations

from django.db.backends.base.base import BaseDatabaseWrapper

AUDIT_TABLE = "tenants_auditentry"
ORGANIZATION_TABLE = "tenants_organization"
_AUDIT_WORDS = "the audit trail is append-only"
_SLUG_WORDS = "a slug never changes"
_REFUSED = "integrity_constraint_violation"

_SQLITE = (
    f"""CREATE TRIGGER audit_no_update BEFORE UPDATE ON {AUDIT_TABLE}
    BEGIN SELECT RAISE(ABORT, '{_AUDIT_WORDS}'); END""",
    f"""CREATE TRIGGER audit_no_delete BEFORE DELETE ON {AUDIT_TABLE}
    BEGIN SELECT RAISE(ABORT, '{_AUDIT_WORDS}'); END""",
    f"""CREATE TRIGGER organization_slug_fixed BEFORE UPDATE OF slug ON {ORGANIZATION_TABLE}
    WHEN OLD.slug <> NEW.slug BEGIN SELECT RAISE(ABORT, '{_SLUG_WORDS}'); END""",
)
_POSTGRESQL = (
    f"""CREATE FUNCTION fairway_audit_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION '{_AUDIT_WORDS}' USING ERRCODE = '{_REFUSED}'; END $$""",
    f"""CREATE FUNCTION fairway_slug_fixed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION '{_SLUG_WORDS}' USING ERRCODE = '{_REFUSED}'; END $$""",
    f"""CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {AUDIT_TABLE}
    FOR EACH STATEMENT EXECUTE FUNCTION fairway_audit_append_only()""",
    f"""CREATE TRIGGER organization_slug_fixed BEFORE UPDATE OF slug ON {ORGANIZATION_TABLE}
    FOR EACH ROW WHEN (OLD.slug <> NEW.slug) EXECUTE FUNCTION fairway_slug_fixed()""",
)
_SQLITE_REMOVE = (
    "DROP TRIGGER IF EXISTS audit_no_update",
    "DROP TRIGGER IF EXISTS audit_no_delete",
    "DROP TRIGGER IF EXISTS organization_slug_fixed",
)
_POSTGRESQL_REMOVE = (
    "DROP FUNCTION IF EXISTS fairway_audit_append_only() CASCADE",
    "DROP FUNCTION IF EXISTS fairway_slug_fixed() CASCADE",
)
_STATEMENTS = {
    "sqlite": (_SQLITE, _SQLITE_REMOVE),
    "postgresql": (_POSTGRESQL, _POSTGRESQL_REMOVE),
}


def install(connection: BaseDatabaseWrapper) -> None:
    _execute(connection, _STATEMENTS[connection.vendor][0])


def remove(connection: BaseDatabaseWrapper) -> None:
    _execute(connection, _STATEMENTS[connection.vendor][1])


def _execute(connection: BaseDatabaseWrapper, statements: tuple[str, ...]) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
