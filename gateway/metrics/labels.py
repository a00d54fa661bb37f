"""How many label values can there be? As many as are configured, whatever callers send."""

from __future__ import annotations

OTHER = "other"
OPERATIONS = {
    "chat/completions": "chat",
    "completions": "text_completion",
    "embeddings": "embeddings",
    "responses": "chat",
    "messages": "chat",
}


class TenantLabels:
    """The first ``most`` tenants that are seen keep a label of their own until the process ends;
    all others share ``other``. A caller that was not identified has the empty label."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = {""}

    def label(self, tenant: str) -> str:
        if tenant in self._known:
            return tenant
        if len(self._known) > self._most:
            return OTHER
        self._known.add(tenant)
        return tenant


def model_label(model: str, pool: str) -> str:
    """A model that led to no pool is only what a caller wrote: it is not repeated."""
    return model if pool else OTHER


def operation_label(endpoint: str) -> str:
    return OPERATIONS.get(endpoint, OTHER)
