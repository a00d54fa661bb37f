"""Pools and replicas are the operators' business: everybody else is refused."""

from __future__ import annotations

from django.http import HttpRequest

from tenants.control.access import principal_of
from tenants.permissions import Principal, require_operator


def operator_of(request: HttpRequest) -> Principal:
    """Raises NotAllowed."""
    principal = principal_of(request)
    require_operator(principal)
    return principal
