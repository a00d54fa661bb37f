"""Who calls files and batches? A key of scope ``batch``, judged exactly as the data plane judges.

Where a gateway runs in this process its snapshot answers; a process that only serves pages reads
the configuration from the database, with the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings

from gateway.auth import Authenticator, Credentials, Principal
from gateway.core.clock import SystemClock
from gateway.core.errors import Rejected
from gateway.core.reasons import Reason
from gateway.runtime import Fairway
from gateway.snapshot.build import build

SCOPE = "batch"


def principal_of(headers: Mapping[str, str], peer: str, fairway: Fairway | None) -> Principal:
    """``headers`` in lower case. Raises Rejected. Without ``fairway`` it reads the database."""
    if fairway is not None:
        authenticator, snapshot = fairway.gateway.authenticator, fairway.snapshots.current
    else:
        own = settings.FAIRWAY_WORKERS
        credentials = Credentials(own.key_pepper, own.secret_key)
        authenticator, snapshot = Authenticator(credentials, SystemClock()), build()
    principal = authenticator.principal(headers, snapshot, scope=SCOPE, peer=peer)
    if principal.line is not None:
        raise Rejected(Reason.NOT_PERMITTED, "A line of a batch may only make its own call.")
    return principal
