"""Things that tests arrange: tenants, keys, people of the cast, ledger records.

Everything is made by the product's own services, so that a test starts from a state that the
product can reach. The cast: alice owns acme, bob is a member of it, charlie owns another tenant,
olga operates.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User

from gateway.core.priority import PriorityClass
from gateway.core.reasons import Outcome
from gateway.core.records import AttemptRecord, CallRecord
from tenants.actors import Actor
from tenants.key_terms import KeyTerms
from tenants.models import Organization
from tenants.services import keys, ledger, members, operators, organizations
from tenants.services.keys import IssuedKey

TESTER = Actor.command("test")
PASSWORD = "correct horse battery"  # noqa: S105
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Cast:
    acme: Organization
    rival: Organization
    alice: User
    bob: User
    charlie: User
    olga: User


def organization(slug: str = "", **options: Any) -> Organization:
    """``options`` go to ``organizations.create``."""
    chosen = slug or f"org{next(_numbers)}"
    return organizations.create(
        name=options.pop("name", chosen.title()), slug=chosen, actor=TESTER, **options
    )


def key(slug: str, **terms: Any) -> IssuedKey:
    """``terms`` replace those of ``KeyTerms``."""
    return keys.create(slug=slug, terms=replace(KeyTerms(), **terms), actor=TESTER)


def member(slug: str, username: str, role: str) -> User:
    members.add(slug=slug, username=username, role=role, password=PASSWORD, actor=TESTER)
    return user(username)


def operator(username: str) -> User:
    operators.create(username=username, password=PASSWORD, actor=TESTER)
    return user(username)


def disable_operator(username: str) -> None:
    operators.disable(username=username, actor=TESTER)


def user(username: str) -> User:
    return get_user_model().objects.get(username=username)


def cast() -> Cast:
    acme, rival = organization("acme"), organization("rival")
    return Cast(
        acme=acme,
        rival=rival,
        alice=member("acme", "alice", "owner"),
        bob=member("acme", "bob", "member"),
        charlie=member("rival", "charlie", "owner"),
        olga=operator("olga"),
    )


def call_record(call_id: str = "", **fields: Any) -> CallRecord:
    """A completed streamed chat of acme; ``fields`` replace."""
    values: dict[str, Any] = {
        "call_id": call_id or f"call-{next(_numbers)}",
        "arrived_at": time.time(),
        "tenant": "acme",
        "key_id": "AbCd1234",
        "endpoint": "chat/completions",
        "model": "sim-llama-8b",
        "pool": "sim-llama-8b",
        "klass": PriorityClass.STANDARD,
        "stream": True,
        "outcome": Outcome.COMPLETED,
        "reason": None,
        "status": 200,
        "replica": "sim-1",
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "received_tokens": 20,
        "ttft_s": 0.2,
        "e2e_s": 1.0,
        "duration_s": 1.0,
        "attempts": (AttemptRecord(1, "sim-1", 0.01, 1.0, 0.0),),
    }
    return CallRecord(**(values | fields))


def ended_call(**fields: Any) -> CallRecord:
    """A call record that is in the ledger."""
    record = call_record(**fields)
    ledger.insert_calls([record])
    return record


def json_of(value: object) -> bytes:
    return msgspec.json.encode(value)
