"""How is a record written? One JSON object per line on stderr; never a prompt, never a key."""

from __future__ import annotations

import logging.config
from typing import Any

import structlog
from structlog.typing import EventDict


def _traceback_of_ours_only(logger: Any, method: str, record: EventDict) -> EventDict:
    """Django adds one to every page that it refuses, which is no fault of this program."""
    if record.get("logger") == "django.request" and record.get("level") == "warning":
        record.pop("exc_info", None)
    return record


_SHARED_STEPS: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.stdlib.ExtraAdder(),
    _traceback_of_ours_only,
    structlog.processors.format_exc_info,
]


def _without_colours(logger: Any, method: str, record: EventDict) -> EventDict:
    """Uvicorn repeats some of its records in colour."""
    record.pop("color_message", None)
    return record


def logging_config(level: str) -> dict[str, Any]:
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "json": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": _SHARED_STEPS,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    _without_colours,
                    structlog.processors.JSONRenderer(),
                ],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django.server": {"level": "WARNING"},
            "uvicorn.access": {"level": "WARNING"},  # a call has a line of its own
            "asyncio": {"level": "WARNING"},
        },
    }


def configure(config: dict[str, Any]) -> None:
    """Django calls this once with LOGGING."""
    logging.config.dictConfig(config)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED_STEPS[:4],
            structlog.processors.format_exc_info,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
