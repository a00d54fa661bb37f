"""How does a span of time look in a header that clients parse as a Go duration: ``6m0s``, ``20ms``?

Resolution is a millisecond, rounded up, so that nobody returns too early.
"""

from __future__ import annotations

import math


def go_duration(seconds: float) -> str:
    """As Go's ``time.Duration`` prints it; negative counts as zero."""
    total_ms = math.ceil(max(0.0, seconds) * 1000 - 1e-6)
    if total_ms == 0:
        return "0s"
    if total_ms < 1000:
        return f"{total_ms}ms"
    minutes, rest_ms = divmod(total_ms, 60_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{rest_ms / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text
