"""Which calls are running, and what did each receive, even after kill -9? See `table`."""

from gateway.active_calls.layout import Opening, Orphan, Phase
from gateway.active_calls.recovery import forget, recover
from gateway.active_calls.table import DEFAULT_CAPACITY, ActiveCall, ActiveCalls

__all__ = [
    "DEFAULT_CAPACITY",
    "ActiveCall",
    "ActiveCalls",
    "Opening",
    "Orphan",
    "Phase",
    "forget",
    "recover",
]
