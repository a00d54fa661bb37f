"""The control API of the gateway, mounted under ``/api/v1``.

Operator scope, except ``calls/{call_id}``, which a tenant gets for its own calls.
"""

from __future__ import annotations

from ninja import Router

from gateway.control import calls, pools, replicas

router = Router()
for part in (pools, replicas, calls):
    router.add_router("", part.router)
