"""How do batch jobs travel? Through Redis when there is one, else through files under var.

A message is a pointer (a batch), never a prompt; results live in the database, so Celery keeps none
of its own. A task is acknowledged after it ran and runs again when its process died: each task is
idempotent and, unless one call takes long, shorter than a quarter of the visibility timeout. A
message that comes again meanwhile finds nothing to lease. Units: seconds, kilobytes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from celery import Celery
from django.conf import settings

from config.env import plain_exit

VISIBILITY_TIMEOUT_S = 300


def broker(redis_url: str, var_dir: Path) -> dict[str, Any]:
    """Celery's settings for the broker; creates the directories of the file transport."""
    if redis_url:
        return {
            "broker_url": redis_url.replace("unix://", "redis+socket://", 1),
            "broker_transport_options": {
                "visibility_timeout": VISIBILITY_TIMEOUT_S,
                "unacked_restore_interval": 5,
                "unacked_restore_throttle": 1,
                "socket_timeout": 5,
                "socket_connect_timeout": 3,
            },
            "worker_disable_prefetch": True,
        }
    messages, control = var_dir / "broker" / "messages", var_dir / "broker" / "control"
    for directory in (messages, control):
        directory.mkdir(parents=True, exist_ok=True)
    return {
        "broker_url": "filesystem://",
        "broker_transport_options": {
            "data_folder_in": str(messages),
            "data_folder_out": str(messages),
            "control_folder": str(control),
        },
    }


app = Celery("fairway")
with plain_exit():
    _broker = broker(settings.REDIS_URL, settings.VAR_DIR)
app.conf.update(
    **_broker,
    accept_content=["json"],
    task_serializer="json",
    result_backend=None,
    task_ignore_result=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_soft_time_limit=60,
    task_time_limit=75,
    worker_prefetch_multiplier=1,
    worker_soft_shutdown_timeout=30,
    worker_max_tasks_per_child=1000,
    worker_max_memory_per_child=512_000,
    worker_hijack_root_logger=False,
    worker_cancel_long_running_tasks_on_connection_loss=True,
    broker_connection_retry_on_startup=True,
    beat_scheduler="django_celery_beat.schedulers:DatabaseScheduler",
    beat_schedule={
        "workers.sweep": {"task": "workers.sweep", "schedule": 5.0, "options": {"expires": 10}},
        "workers.upkeep": {"task": "workers.upkeep", "schedule": 60.0, "options": {"expires": 50}},
        "workers.clean": {"task": "workers.clean", "schedule": 300.0, "options": {"expires": 60}},
    },
    timezone="UTC",
)
app.autodiscover_tasks()
