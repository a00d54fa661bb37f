"""What is written of calls that have ended: ledger rows first, explanations beside them."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.core.records import CallRecord
from gateway.services import explanations
from tenants.services.ledger import insert_calls


def insert(records: Sequence[CallRecord]) -> None:
    """Idempotent by call id. Raises django.db.Error."""
    insert_calls(records)
    explanations.keep(records)
