"""How does an uploaded file become a running batch? Every line is judged, then every line is a row.

With one mistake in it the batch fails and nothing runs. Done twice it has the same effect as once.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import BinaryIO

from gateway.auth import Principal
from gateway.core.priority import PriorityClass
from gateway.core.reasons import REASONS, Reason
from gateway.snapshot.build import build
from gateway.snapshot.values import Snapshot
from workers.models import Batch, Status
from workers.services import lines
from workers.storage import Storage
from workers.validation import Findings, LineProblem, Validator


def check(*, batch: Batch, storage: Storage, now: datetime) -> bool:
    """``batch`` has been claimed. Whether its lines may now run."""
    findings = _findings(batch, storage, now)
    rows = Batch.objects.filter(pk=batch.batch_id, status=Status.VALIDATING)
    if findings.problems:
        errors = [asdict(problem) for problem in findings.problems]
        rows.update(status=Status.FAILED, errors=errors, finished_at=now, busy_until=None)
        return False
    lines.insert(batch_id=batch.batch_id, lines=findings.lines)
    return bool(
        rows.update(
            status=Status.IN_PROGRESS,
            in_progress_at=now,
            total=len(findings.lines),
            model=next(iter(findings.models)) if len(findings.models) == 1 else "",
            busy_until=None,
        )
    )


def _findings(batch: Batch, storage: Storage, now: datetime) -> Findings:
    snapshot = build()
    principal = _principal(batch, snapshot, now)
    if isinstance(principal, Reason):
        text = REASONS[principal].meaning
        return Findings(problems=[LineProblem(str(principal), text)])
    try:
        file: BinaryIO = storage.path(batch.input_file_id).open("rb")
    except FileNotFoundError:
        text = "The input file is gone."
        return Findings(problems=[LineProblem("file_not_found", text, param="input_file_id")])
    with file:
        return Validator(batch.endpoint, principal, snapshot).read(file)


def _principal(batch: Batch, snapshot: Snapshot, now: datetime) -> Principal | Reason:
    """As whom the lines will call."""
    key, tenant = snapshot.keys.get(batch.key_id), snapshot.tenants.get(batch.tenant)
    if key is None or tenant is None or not key.live_at(now.timestamp()):
        return Reason.INVALID_API_KEY
    if tenant.suspended:
        return Reason.SUSPENDED
    return Principal(tenant, key, PriorityClass.BATCH, PriorityClass.BATCH)
