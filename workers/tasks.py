"""What Celery runs. A message names a batch; the rows say what is to be done.

Messages are acknowledged after the work, may come twice and may be lost: each task takes leases or
claims in the database first, and ``sweep`` sends again what nobody works at. A chunk starts lines
for some seconds and hands over to the next message; it ends when the last line it started has its
answer. ``time_limit`` is only the last resort for one that hangs.
"""

from __future__ import annotations

import asyncio

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from gateway.core.clock import SystemClock
from gateway.services import explanations
from tenants.actors import Actor
from tenants.services import upkeep
from workers import messages, selectors
from workers.calls import Caller, GatewayCalls
from workers.models import Batch, Status
from workers.runner import Bounds, ChunkRun, Place
from workers.services import batches, checking, closing, files, sweeping
from workers.services.lines import Lease
from workers.settings import WorkersSettings
from workers.storage import Storage

OWN: WorkersSettings = settings.FAIRWAY_WORKERS
CHUNK_LIMIT_S = int(OWN.chunk_s + OWN.line_timeout_s + 60)
CHECK_LIMIT_S = 80  # shorter than a claim


@shared_task(name=messages.VALIDATE, time_limit=CHECK_LIMIT_S, soft_time_limit=CHECK_LIMIT_S)
def validate(batch_id: str) -> None:
    now = timezone.now()
    batch = batches.claim(batch_id=batch_id, statuses=(Status.VALIDATING,), now=now)
    if batch is not None and checking.check(batch=batch, storage=_storage(), now=timezone.now()):
        for _ in range(OWN.runners):
            messages.send(messages.RUN, batch_id)


@shared_task(name=messages.RUN, time_limit=CHUNK_LIMIT_S, soft_time_limit=CHUNK_LIMIT_S)
def run(batch_id: str) -> None:
    batch = selectors.running_batch(batch_id)
    if batch is not None and asyncio.run(_run_chunk(batch)):
        messages.send(messages.RUN, batch_id)
    if batches.begin_closing(batch_id=batch_id, now=timezone.now()):
        messages.send(messages.CLOSE, batch_id)


@shared_task(name=messages.CLOSE, time_limit=CHECK_LIMIT_S, soft_time_limit=CHECK_LIMIT_S)
def close(batch_id: str) -> None:
    now = timezone.now()
    if batches.has_running_lines(batch_id=batch_id, now=now):
        return  # the sweep comes back
    batch = batches.claim(batch_id=batch_id, statuses=closing.CLOSING, now=now)
    if batch is not None:
        closing.close(batch=batch, storage=_storage(), now=timezone.now())


@shared_task(name="workers.sweep")
def sweep() -> None:
    sweeping.sweep(now=timezone.now())


@shared_task(name="workers.clean")
def clean() -> None:
    now = timezone.now()
    files.delete_expired(storage=_storage(), now=now)
    sweeping.forget_old(storage=_storage(), now=now)
    _storage().sweep(selectors.file_ids())


@shared_task(name="workers.upkeep")
def tenants_upkeep() -> None:
    upkeep.expire_credit(actor=Actor.system("upkeep"))
    upkeep.purge_ledger()
    explanations.purge()


async def _run_chunk(batch: Batch) -> bool:
    caller = Caller(batch.tenant, batch.key_id, batch.batch_id, batch.endpoint)
    place = Place(_storage().path(batch.input_file_id), _storage().results(batch.batch_id))
    bounds = Bounds(OWN.lines_at_once, OWN.chunk_s, OWN.heartbeat_s)
    lease = Lease.new(batch.batch_id, timezone.now())
    url, secret = OWN.calls_url, OWN.secret_key
    async with GatewayCalls(url, secret, caller, OWN.line_timeout_s) as calls:
        return await ChunkRun(lease, place, calls, bounds=bounds, clock=SystemClock()).run()


def _storage() -> Storage:
    return Storage(OWN.files_dir)
