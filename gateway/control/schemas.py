"""Bodies and answers about pools, replicas and calls. A body with an unknown field is refused
(422).

Prices are microcredits per million tokens, durations seconds. ``live`` is absent (null) where
this process does not serve calls. The API key of a replica goes in and never comes out.
"""

from __future__ import annotations

from typing import Annotated

from ninja import Schema
from pydantic import Field, StrictBool, StrictInt, StrictStr

from tenants.control.schemas import Body, CallShown, Number, Text, Texts

Model = Annotated[Text, Field(max_length=100)]
Secret = Annotated[StrictStr, Field(max_length=2_000)]


class TargetShown(Schema):
    pool: str
    upstream_model: str
    weight: int
    fallback: bool


class ModelShown(Schema):
    name: str
    pool: str
    upstream_model: str
    weight: int
    others: list[TargetShown]


class PoolLive(Schema):
    """As of the last second."""

    queued: dict[str, int]
    in_flight: int
    slots: int
    oldest_wait_s: float | None


class ReplicaLive(Schema):
    """As of the last second. None: the replica does not tell."""

    state: str
    why: str
    in_flight: int
    slots: int
    telemetry_age_s: float | None
    running: int | None
    waiting: int | None
    kv_ratio: float | None


class ReplicaShown(Schema):
    slug: str
    pool: str
    state: str
    kind: str
    base_url: str
    slots: int
    context_tokens: int
    kv_tokens: int
    capabilities: list[str]
    region: str
    tenants: list[str]
    band_from_tokens: int
    band_to_tokens: int
    api_key: str
    live: ReplicaLive | None


class PoolShown(Schema):
    slug: str
    routing: str
    input_per_mtok: int
    cached_per_mtok: int
    output_per_mtok: int
    context_tokens: int
    endpoints: list[str]
    capabilities: list[str]
    template_order: str
    ttft_objective_s: float | None
    tpot_objective_s: float | None
    models: list[ModelShown]
    replicas: list[str]
    live: PoolLive | None


class PoolChange(Body):
    """What is left out stays."""

    routing: Text | None = None
    input_per_mtok: StrictInt | None = None
    cached_per_mtok: StrictInt | None = None
    output_per_mtok: StrictInt | None = None
    context_tokens: StrictInt | None = None
    endpoints: Texts | None = None
    capabilities: Texts | None = None
    template_order: Text | None = None
    ttft_objective_s: Number | None = None
    tpot_objective_s: Number | None = None
    why: Text = ""


class PoolBody(PoolChange):
    slug: Text


class TargetBody(Body):
    """``weight``: its part of the calls; ``fallback``: only when no other target can serve."""

    pool: Text
    upstream_model: Model | None = None
    weight: StrictInt = 1
    fallback: StrictBool = False


class ModelBody(Body):
    """``others``: more pools that answer to the name, beside the one of the path."""

    name: Model
    upstream_model: Model | None = None
    weight: StrictInt = 1
    others: list[TargetBody] = Field(default_factory=list, max_length=16)
    why: Text = ""


class ReplicaChange(Body):
    """What is left out stays; an empty ``api_key`` removes it."""

    kind: Text | None = None
    base_url: Text | None = None
    slots: StrictInt | None = None
    context_tokens: StrictInt | None = None
    kv_tokens: StrictInt | None = None
    capabilities: Texts | None = None
    region: Text | None = None
    tenants: Texts | None = None
    band_from_tokens: StrictInt | None = None
    band_to_tokens: StrictInt | None = None
    api_key: Secret | None = None
    why: Text = ""


class ReplicaBody(ReplicaChange):
    slug: Text
    pool: Text
    kind: Text
    base_url: Text


class ParameterShown(Schema):
    """``values``: pool (or ``*``) to what an operator set; others have the default."""

    name: str
    unit: str
    default: float
    least: float
    most: float
    meaning: str
    values: dict[str, float]


class ParameterBody(Body):
    value: Number
    pool: Text = "*"
    why: Text = ""


class AttemptShown(Schema):
    """Offsets are seconds since the call's arrival."""

    number: int
    replica: str
    dispatched_s: float
    ended_s: float
    queue_s: float
    reason: str
    first_event_s: float | None
    first_token_s: float | None
    received_tokens: int
    rule: str
    said: str = Field("", description="What the replica said of its error; operators only.")


class CallLive(Schema):
    """``phase``: admitted (perhaps queued), dispatched, accepted (the replica has begun),
    relaying."""

    phase: str
    running_s: float
    replica: str
    received_tokens: int
    prompt_tokens: int
    cached_tokens: int
    reserved_tokens: int


class CallTold(Schema):
    """A call that runs has ``live``; one that has ended has ``record`` and ``attempts``.
    ``routing``: why it ran where it ran, where that was kept: for a week, of calls that failed or
    were retried, and of one in a hundred others."""

    call_id: str
    tenant: str
    status: str
    explanation: str
    model: str
    pool: str
    klass: str
    live: CallLive | None = None
    record: CallShown | None = None
    attempts: list[AttemptShown] | None = None
    routing: str | None = None
