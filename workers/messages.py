"""How does a task learn that there is work? A message that names a batch, nothing more.

A message may be lost or arrive twice: the rows say what is to be done, and the sweep sends another
message for what nobody works at. It is therefore sent without waiting for a broker that is away.
"""

from __future__ import annotations

import structlog
from celery import current_app
from kombu.exceptions import OperationalError

log = structlog.get_logger(__name__)

VALIDATE = "workers.validate"
RUN = "workers.run"
CLOSE = "workers.close"
EXPIRES_S = 60


def send(task: str, batch_id: str) -> None:
    try:
        current_app.send_task(task, args=[batch_id], expires=EXPIRES_S, retry=False)
    except (OperationalError, OSError) as error:
        log.warning("message_not_sent", task=task, batch=batch_id, error=type(error).__name__)
