"""A record is one line of JSON, whatever a client wrote into what it tells."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import structlog
from django.test import Client
from msgspec.structs import replace

from config.logs import logging_config
from gateway.call_log import CallLog
from gateway.core.events import CallEnded
from gateway.core.records import CallRecord
from gateway.pipeline import life
from tests import factories
from tests.fakes.data_plane import House, chat
from tests.fakes.virtual_time import virtual_time
from tests.gateway.pipeline.conftest import in_house

__all__ = ["in_house", "virtual_time"]

FORGED = '{"event": "call", "tenant": "rival"}'
HOSTILE = f"a\r\n{FORGED}\n\x1b[31mred\x1b[0m\x00\x08\u202egnp\u2066\u2028\u2029\x85\x9b31m"
LONE = "\ud800"  # half of a character: no text that a browser can send
HEADER = HOSTILE.encode("utf-8", "replace").decode("latin-1")
TEXT_FIELDS = tuple(
    name for name, kind in CallRecord.__annotations__.items() if kind in ("str", str)
)


@dataclass
class Written:
    """What the root logger wrote, as the product formats it, and how many records it was."""

    stream: io.StringIO = field(default_factory=io.StringIO)
    records: int = 0

    def count(self, record: logging.LogRecord) -> bool:
        self.records += 1
        return True

    def take(self, line: bytes) -> None:
        """Of a call, which passes no formatter."""
        self.stream.write(line.decode())
        self.records += 1

    def check(self, least: int) -> list[dict[str, object]]:
        text = self.stream.getvalue()
        lines = text.splitlines()
        assert re.fullmatch(r"[\x20-\x7e\n]*", text), "only printable ASCII and line ends"
        assert self.records == len(lines) >= least
        told = [json.loads(line) for line in lines]
        assert all(isinstance(one, dict) and one.get("tenant") != "rival" for one in told)
        return told


@pytest.fixture
def written() -> Iterator[Written]:
    form = dict(logging_config("DEBUG")["formatters"]["json"])
    kept = Written()
    handler = logging.StreamHandler(kept.stream)
    handler.setFormatter(form.pop("()")(**form))
    handler.addFilter(kept.count)
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield kept
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def test_every_field_of_a_call_stays_within_its_line(written: Written) -> None:
    """S28: all text of a record at once, then alone."""
    record, call_log = factories.call_record(), CallLog(written.take)
    call_log.on_event(CallEnded(replace(record, **dict.fromkeys(TEXT_FIELDS, HOSTILE + LONE))))
    for name in TEXT_FIELDS:
        call_log.on_event(CallEnded(replace(record, **{name: HOSTILE})))
    assert len(TEXT_FIELDS) > 8
    assert written.check(len(TEXT_FIELDS) + 1)[0]["request_id"] == HOSTILE + LONE


def test_exceptions_arguments_and_foreign_records_stay_within_their_line(written: Written) -> None:
    """S28"""
    log, foreign = structlog.get_logger("own"), logging.getLogger("foreign")
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        log.exception("failed", what=HOSTILE, nested={HOSTILE: [HOSTILE]})
        foreign.exception("failed %s", HOSTILE)
    log.warning(HOSTILE)
    foreign.info(HOSTILE, extra={"path": HOSTILE, "color_message": HOSTILE})
    foreign.debug("%(a)s", {"a": HOSTILE})
    logging.getLogger(HOSTILE).warning("by name")
    assert len(written.check(6)) == 6


def test_what_callers_send_stays_within_its_line(
    in_house: Any, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S28: bodies, headers and paths through the data plane; a mistake of ours too."""

    async def scenario(house: House) -> None:
        headers = dict.fromkeys(
            ("x-request-id", "user-agent", "x-fairway-priority", "traceparent"), HEADER
        )
        await house.call(chat(), headers=headers)
        await house.call(chat(model=HOSTILE))
        await house.call(chat(user=HOSTILE.replace("\x00", "")))
        await house.call(path=f"/v1/{HOSTILE}", method="GET")
        await house.call(headers={"authorization": f"Bearer {HEADER}"})
        monkeypatch.setattr(life, "classify", _failing)
        await house.call(chat(), headers={"x-request-id": HEADER})
        call_log = CallLog(written.take)
        for record in house.records:
            call_log.on_event(CallEnded(record))

    in_house(scenario)
    written.check(5)


def _failing(*arguments: object) -> None:
    raise ValueError(HOSTILE)


@pytest.mark.django_db
def test_what_browsers_send_stays_within_its_line(written: Written) -> None:
    """S28: refused hosts, paths, methods, tokens and sign-ins."""
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    path = "/nothing/%0d%0a%1b%5b31m%e2%80%ae%e2%80%a8x"
    client.get(path)
    client.get("/accounts/login/", headers={"host": "evil\r\n" + FORGED})
    client.post(path, {"login": HOSTILE}, headers={"referer": HEADER, "user-agent": HEADER})
    client.post("/accounts/login/", {"login": HOSTILE, "password": "x"})
    client.delete(f"/livez{path}")
    client.get(f"/api/v1/tenants/{path}", headers={"authorization": f"Bearer {HEADER}"})
    written.check(4)
