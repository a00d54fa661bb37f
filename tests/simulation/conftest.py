from __future__ import annotations

from tests.fakes.virtual_time import virtual_time

__all__ = ["virtual_time"]
