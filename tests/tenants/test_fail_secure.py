"""A mistake of ours in who may do what changes nothing: the control API refuses, for a session and
for a key."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tenants.models import ApiKey, AuditEntry
from tests import factories
from tests.failing import Injected, Step, steps
from tests.people import cast, client_of

__all__ = ["cast", "client_of"]

DECIDING = (
    "tenants.control.access",
    "tenants.key_format",
    "tenants.permissions",
    "tenants.principals",
    "tenants.selectors.people",
    "tenants.services.audit",
)
PASSED = frozenset(
    {
        "tenants.control.access.SessionOrKey.authenticate",
        "tenants.principals.of_account",
        "tenants.principals.of_key",
        "tenants.principals.valid_key",
        "tenants.principals.in_networks",
        "tenants.key_format.digest",
        "tenants.selectors.people.is_operator",
    }
)


def test_a_failure_in_any_step_of_the_control_api_changes_nothing(
    client_of: Callable[[str], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S40: every function that decides fails in its turn; one that is not passed is no refusal."""
    secret = factories.key("acme", scopes=("manage",)).secret
    session, by_key = client_of("alice"), Client(headers={"authorization": f"Bearer {secret}"})
    session.raise_request_exception = by_key.raise_request_exception = False
    reached = {
        step.name
        for step in steps(DECIDING)
        for client in (session, by_key)
        if _reached(client, monkeypatch, step)
    }
    assert reached >= PASSED
    print(f"{len(reached)} functions failed; nothing was changed")


def _reached(client: Client, monkeypatch: pytest.MonkeyPatch, step: Step) -> bool:
    reached = False
    before = _state()

    def fail(*arguments: Any, **named: Any) -> Any:
        nonlocal reached
        reached = True
        raise Injected

    body = json.dumps({"label": "new"})
    with monkeypatch.context() as patch:
        step.replace(patch, fail)
        answer = client.post("/api/v1/tenants/acme/keys", body, "application/json")
    if reached:
        assert answer.status_code >= 400, step.name
        assert _state() == before, step.name
    else:
        assert answer.status_code == 201, step.name
    return reached


def _state() -> tuple[int, int]:
    return ApiKey.objects.count(), AuditEntry.objects.count()
