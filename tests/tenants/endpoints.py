"""Every operation of the tenants' control API: a valid request, and who may send it.

Paths are filled with alice's tenant, a key of it, and bob. The table is compared with the OpenAPI
file, so that an operation without a row fails.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

OPERATOR = frozenset({"olga"})
OWNERS = OPERATOR | {"alice"}
KEY_MAKERS = OWNERS | {"bob", "key"}
INSIDERS = KEY_MAKERS | {"victor"}
EVERYBODY = INSIDERS | {"charlie"}


@dataclass(frozen=True)
class Endpoint:
    line: str
    allowed: frozenset[str]
    body: dict[str, Any] = field(default_factory=dict)
    status: int = 200

    @property
    def has_body(self) -> bool:
        return self.line.split(" ")[0] in ("POST", "PUT", "PATCH")

    @property
    def of_tenant(self) -> bool:
        return "{slug}" in self.line

    def filled(self, **names: str) -> str:
        return self.line.format(**names)


LIMIT = {"meter": "rpm", "amount": 5}
T, K, M = "/tenants/{slug}", "/tenants/{slug}/keys/{key_id}", "/tenants/{slug}/members"
ENDPOINTS = (
    Endpoint("GET /me", EVERYBODY),
    Endpoint("GET /plans", EVERYBODY),
    Endpoint("PUT /plans/{plan}/limits", OPERATOR, LIMIT | {"why": "x"}),
    Endpoint("GET /tenants", EVERYBODY),
    Endpoint("POST /tenants", OPERATOR, {"name": "Fresh"}, 201),
    Endpoint(f"GET {T}", INSIDERS),
    Endpoint(f"PATCH {T}", OWNERS | {"key"}, {"name": "Renamed"}),
    Endpoint(f"PUT {T}/weight", OPERATOR, {"weight": 3, "why": "x"}),
    Endpoint(f"PUT {T}/highest-class", OPERATOR, {"highest_class": "batch", "why": "x"}),
    Endpoint(f"PUT {T}/plan", OPERATOR, {"plan": "team", "why": "x"}),
    Endpoint(f"POST {T}/suspend", OPERATOR, {"why": "x"}),
    Endpoint(f"POST {T}/resume", OPERATOR, {}, 409),
    Endpoint(f"GET {T}/keys", INSIDERS),
    Endpoint(f"POST {T}/keys", KEY_MAKERS, {"label": "new"}, 201),
    Endpoint(f"GET {K}", INSIDERS),
    Endpoint(f"PATCH {K}", KEY_MAKERS, {"label": "renamed"}),
    Endpoint(f"POST {K}/disable", KEY_MAKERS),
    Endpoint(f"POST {K}/enable", KEY_MAKERS, {}, 409),
    Endpoint(f"POST {K}/rotate", KEY_MAKERS, {"grace_s": 60}, 201),
    Endpoint(f"GET {K}/limits", INSIDERS),
    Endpoint(f"PUT {K}/limits", OWNERS | {"key"}, LIMIT),
    Endpoint(f"DELETE {K}/limits?meter=tpm", OWNERS | {"key"}),
    Endpoint(f"GET {T}/limits", INSIDERS),
    Endpoint(f"PUT {T}/limits", OPERATOR, LIMIT),
    Endpoint(f"DELETE {T}/limits?meter=tpm", OPERATOR),
    Endpoint(f"GET {T}/credit", INSIDERS),
    Endpoint(f"POST {T}/credit/grants", OPERATOR, {"amount_microcredits": 5, "why": "x"}),
    Endpoint(f"POST {T}/credit/refunds", OPERATOR, {"amount_microcredits": 5, "why": "x"}),
    Endpoint(f"GET {M}", INSIDERS),
    Endpoint(f"POST {M}", OWNERS, {"username": "fresh", "role": "viewer"}, 201),
    Endpoint(f"PATCH {M}/{{username}}", OWNERS, {"role": "viewer"}),
    Endpoint(f"DELETE {M}/{{username}}", OWNERS),
    Endpoint(f"GET {T}/calls", INSIDERS),
    Endpoint(f"GET {T}/usage", INSIDERS),
    Endpoint(f"GET {T}/audit", OWNERS | {"key"}),
    Endpoint("GET /audit", OPERATOR),
    Endpoint("POST /audit/{entry_id}/undo", OPERATOR),
)
