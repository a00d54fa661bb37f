"""What do the tables of ``docs/reference.md`` say? Settings, reasons, metrics, from the code.

The meaning of an app's setting is the comment behind its field, so that it is written once.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import re
import tokenize
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from config import secret_files
from config.env import APPS, Shared, app_name, own_fields, shared_name
from gateway.core.reasons import REASONS, ReasonFacts
from gateway.core.stages import MEMORY, Stages
from gateway.ledger.ledger import LedgerStats
from gateway.metrics import ConnectionFacts, Metrics
from gateway.snapshot.parameters import PARAMETERS

INTRODUCTION = """# Reference

Written by `manage.py reference` from the code; a test compares. Every value of time is in seconds.
"""
SECRETS = ("secret_key", "key_pepper")


def page() -> str:
    parts = [INTRODUCTION, *_settings(), *_parameters(), *_reasons(), *_metrics()]
    return "\n".join(parts).rstrip() + "\n"


def _settings() -> Iterable[str]:
    yield "## Settings\n"
    yield "Environment variables; an unknown `FAIRWAY_…` name or a malformed value is refused, and"
    yield "so is a value that is unsafe. A secret may lie in a file that `NAME_FILE` names, for"
    yield f"{', '.join(f'`{name}`' for name in secret_files.SECRETS)}.\n"
    rows = []
    for field, info in Shared.model_fields.items():
        default = "" if field in SECRETS else _shown(info.default)
        rows.append((f"`{shared_name(field)}`", default, info.description or ""))
    for app, settings in APPS.items():
        meanings = comments(settings)
        for one in own_fields(app):
            meaning = meanings.get(one.name, "")
            rows.append((f"`{app_name(app, one.name)}`", _shown(_default(one)), meaning))
    yield table(("variable", "default", "meaning"), rows)


def _parameters() -> Iterable[str]:
    yield "\n## Policy parameters\n"
    yield "Changed at run time, for one pool or all: `manage.py parameter`, `/api/v1/parameters`;"
    yield "how a policy works is told at the top of its module in `gateway/core`.\n"
    rows = [
        (
            f"`{one.name}`",
            _plain(one.default),
            one.unit,
            f"{_plain(one.least)} – {_plain(one.most)}",
            one.meaning,
            f"`{one.module}`",
        )
        for one in PARAMETERS.values()
    ]
    yield table(("parameter", "default", "unit", "bounds", "meaning", "module"), rows)


def _plain(value: float) -> str:
    """Whole numbers with separators, never an exponent."""
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def _reasons() -> Iterable[str]:
    yield "\n## Reasons\n"
    yield "The error code, the header `x-fairway-reason`, the metric label and the ledger's word.\n"
    rows = [(f"`{reason}`", _statuses(facts), facts.meaning) for reason, facts in REASONS.items()]
    yield table(("reason", "status", "meaning"), rows)


def _statuses(facts: ReasonFacts) -> str:
    later = facts.dispatched_status
    return str(facts.status) if later is None else f"{facts.status}; {later} once dispatched"


def _metrics() -> Iterable[str]:
    yield "\n## Metrics\n"
    yield "`GET /metrics`, Prometheus text format.\n"
    metrics = Metrics()
    metrics.watch_active_calls(lambda: 0)
    metrics.watch_memory(Stages(MEMORY))
    metrics.watch_connections(lambda: ConnectionFacts(0, 0, 0))
    metrics.watch_ledger(lambda: LedgerStats(*(0 for _ in dataclasses.fields(LedgerStats))))
    found = re.findall(r"^# HELP (\S+) (.*)$", metrics.render().decode(), re.MULTILINE)
    rows = [(f"`{name}`", meaning) for name, meaning in found if not name.endswith("_created")]
    yield table(("metric", "meaning"), rows)


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    cells = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in cells)


def comments(settings: type[Any]) -> dict[str, str]:
    """Field name -> the comment on its lines and on the comment lines right below."""
    source = inspect.getsource(settings)
    found = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    alone = {n for n, line in enumerate(source.splitlines(), 1) if line.lstrip().startswith("#")}
    meanings = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            last = node.end_lineno or node.lineno
            while last + 1 in alone:
                last += 1
            lines = (found.get(number, "") for number in range(node.lineno, last + 1))
            meanings[node.target.id] = " ".join(line for line in lines if line)
    return meanings


def _default(field: dataclasses.Field[Any]) -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    factory: Callable[[], object] | Any = field.default_factory
    return factory() if factory is not dataclasses.MISSING else "required"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        value = ",".join(map(str, value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool):
        value = str(value).lower()
    return f"`{value}`" if str(value) else ""
