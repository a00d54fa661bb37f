"""The control API of tenants, mounted under ``/api/v1``: tenant scope and operator scope.

A tenant that the caller has nothing to do with answers 404, like one that does not exist.
"""

from __future__ import annotations

from ninja import Router

from tenants.control import keys, limits, members, organizations, records

router = Router()
for part in (organizations, keys, limits, members, records):
    router.add_router("", part.router)
