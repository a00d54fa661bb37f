"""When may a refused caller come back? The headers that real clients obey.

On every 429 and 503: ``retry-after-ms`` is the computed wait plus 0-20 % so that refused callers do
not return together, never less than computed; ``retry-after`` is its ceiling in seconds, at least
1. Clients give up or ignore waits above 60 s, so those also say ``x-should-retry: false``, and so
does what waiting cannot mend. Source: retry behaviour of the public SDKs.
"""

from __future__ import annotations

import math
import random
from typing import Final

from gateway.core.errors import CallError
from gateway.core.reasons import Reason

JITTER_RATIO: Final = 0.2
LONGEST_RETRY_S: Final = 60.0
UNKNOWN_WAIT_S: Final = 5.0  # where the refusal cannot say how long
_WAITS: Final = frozenset({429, 503})
_NEVER: Final = frozenset({Reason.CREDIT_EXHAUSTED})  # only a grant helps


def error_headers(error: CallError, rng: random.Random) -> dict[str, str]:
    headers = {"x-fairway-reason": str(error.reason)}
    if error.status not in _WAITS:
        return headers
    computed_s = UNKNOWN_WAIT_S if error.retry_after_s is None else max(0.0, error.retry_after_s)
    wait_ms = max(1, math.ceil(computed_s * 1000 * (1 + rng.uniform(0, JITTER_RATIO))))
    headers["retry-after-ms"] = str(wait_ms)
    headers["retry-after"] = str(max(1, math.ceil(wait_ms / 1000)))
    if wait_ms > LONGEST_RETRY_S * 1000 or error.reason in _NEVER:
        headers["x-should-retry"] = "false"
    return headers
