"""Bodies and answers of the control API. A body with an unknown field is refused (422).

Money is whole microcredits, durations are seconds, moments carry a zone.
"""

from __future__ import annotations

from typing import Annotated, Any

from ninja import Schema
from pydantic import AwareDatetime, ConfigDict, Field, StrictInt, StrictStr

from gateway.core.limits.limit import Limit

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Text = Annotated[StrictStr, Field(max_length=500)]
Texts = Annotated[tuple[Text, ...], Field(max_length=100)]


class Body(Schema):
    model_config = ConfigDict(extra="forbid")


class Problem(Schema):
    """Why nothing was done."""

    detail: str
    code: str
    next_step: str = ""
    field: str | None = None


def answers(shown: Any, *, status: int = 200) -> dict[Any, Any]:
    """What an operation may answer: ``shown``, or a problem."""
    return {status: shown, frozenset({400, 401, 403, 404, 409, 415, 422}): Problem}


class Why(Body):
    why: Text


class WhyNot(Body):
    """A reason that may be left out."""

    why: Text = ""


class LimitShown(Schema):
    meter: str
    amount: float
    pool: str = "*"
    klass: str = "*"
    burst: float | None = None
    source: str = ""


class LimitBody(Body):
    meter: Text
    amount: Number
    pool: Text = "*"
    klass: Text = "*"
    burst: Number | None = None
    why: Text = ""

    def limit(self) -> Limit:
        return Limit(self.meter, self.amount, self.pool, self.klass, self.burst)


class PlanShown(Schema):
    slug: str
    name: str
    weight: float
    highest_class: str
    cached_ratio: float
    over_limit: str
    limits: list[LimitShown]


class TenantShown(Schema):
    """``version`` is what ``expected_version`` of a change refers to."""

    slug: str
    name: str
    plan: str
    weight: float
    highest_class: str
    suspended: bool
    suspended_why: str
    version: int
    created_at: AwareDatetime
    role: str


class TenantBody(Body):
    name: Text
    slug: Text | None = None
    plan: Text | None = None
    weight: Number | None = None
    highest_class: Text | None = None
    why: Text = ""


class RenameBody(Body):
    name: Text
    why: Text = ""
    expected_version: StrictInt | None = None


class WeightBody(Body):
    weight: Number
    why: Text
    expected_version: StrictInt | None = None


class ClassBody(Body):
    highest_class: Text
    why: Text
    expected_version: StrictInt | None = None


class PlanChangeBody(Body):
    plan: Text
    why: Text
    expected_version: StrictInt | None = None


class AuditShown(Schema):
    """Without ``id``: nothing was changed, so nothing was written."""

    id: int | None
    at: AwareDatetime
    actor: str
    address: str
    action: str
    target: str
    tenant: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    why: str
    config_version: int
    undoes: int | None


class KeyShown(Schema):
    key_id: str
    masked: str
    label: str
    scopes: list[str]
    models: list[str]
    highest_class: str
    default_class: str
    allowed_networks: list[str]
    enabled: bool
    created_at: AwareDatetime
    created_by: str
    expires_at: AwareDatetime | None
    last_used_at: AwareDatetime | None
    rotated_to: str | None
    limits: list[LimitShown]


class KeyIssued(KeyShown):
    """``api_key`` is the secret. It cannot be read again."""

    api_key: str


class KeyBody(Body):
    label: Text = "key"
    scopes: Texts = ("inference", "batch")
    models: Texts = ()
    highest_class: Text = "interactive"
    default_class: Text = "standard"
    allowed_networks: Texts = ()
    expires_at: AwareDatetime | None = None
    why: Text = ""


class KeyChangeBody(Body):
    """What is left out stays as it is; ``expires_at`` null removes the expiry."""

    label: Text | None = None
    scopes: Texts | None = None
    models: Texts | None = None
    highest_class: Text | None = None
    default_class: Text | None = None
    allowed_networks: Texts | None = None
    expires_at: AwareDatetime | None = None
    why: Text = ""


class RotateBody(Body):
    grace_s: Number | None = None
    why: Text = ""


class MemberShown(Schema):
    username: str
    role: str
    created_at: AwareDatetime


class MemberAdded(MemberShown):
    """``password`` is set for an account made here. It cannot be read again."""

    password: str | None


class MemberBody(Body):
    username: Text
    role: Text
    why: Text = ""


class RoleBody(Body):
    role: Text
    why: Text = ""


class CreditShown(Schema):
    """granted = charged + holds + balance + expired. Holds belong to calls in flight; 0 where no
    gateway runs in the process that answers."""

    granted: int
    charged: int
    holds: int
    balance: int
    expired: int
    refunded: int


class GrantBody(Body):
    amount_microcredits: StrictInt
    why: Text
    kind: Text = "top_up"
    expires_at: AwareDatetime | None = None


class RefundBody(Body):
    amount_microcredits: StrictInt
    why: Text


class CallShown(Schema):
    call_id: str
    arrived_at: AwareDatetime
    key_id: str
    endpoint: str
    model: str
    pool: str
    klass: str
    stream: bool
    outcome: str
    reason: str
    status: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    estimated: bool
    charge_microcredits: int
    queue_s: float | None
    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float | None
    retry_after_s: float | None
    message: str


class TotalsShown(Schema):
    group: str
    calls: int
    completed: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    received_tokens: int
    charge_microcredits: int
    service_cost: float


class PrincipalShown(Schema):
    """``roles``: tenant to what the caller is there."""

    actor: str
    operator: bool
    roles: dict[str, str]
