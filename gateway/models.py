"""What is served, and by which servers: pools, aliases, replicas, policy parameters.

Slugs never change (triggers see to it): ledger rows, limits and buckets name them. Prices are
microcredits per million tokens, as in ``gateway.core.cost``. Services write, selectors read.
"""

from __future__ import annotations

from django.db import models
from django.utils import timezone

SLUG_CHARACTERS = 40
MODEL_CHARACTERS = 100


class ReplicaSetting(models.TextChoices):
    """What an operator wants; whether the replica is healthy is not stored."""

    ENABLED = "enabled"
    DRAINING = "draining"  # finishes its calls, gets no new ones
    DISABLED = "disabled"


class Pool(models.Model):
    """All replicas that serve one model. 0 context tokens: unknown. ``template_order``: whether the
    model's template puts tools before or after the system message; empty: not learned yet."""

    slug = models.CharField(max_length=SLUG_CHARACTERS, unique=True)
    routing = models.CharField(max_length=40)
    input_per_mtok = models.BigIntegerField(default=0)
    cached_per_mtok = models.BigIntegerField(default=0)
    output_per_mtok = models.BigIntegerField(default=0)
    context_tokens = models.PositiveIntegerField(default=0)
    endpoints = models.JSONField(default=list)
    capabilities = models.JSONField(default=list)
    template_order = models.CharField(max_length=20, blank=True)
    ttft_objective_s = models.FloatField(null=True)
    tpot_objective_s = models.FloatField(null=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("slug",)
        constraints = (
            models.CheckConstraint(
                name="pool_prices_not_negative",
                condition=models.Q(
                    input_per_mtok__gte=0, cached_per_mtok__gte=0, output_per_mtok__gte=0
                ),
            ),
        )

    def __str__(self) -> str:
        return self.slug


class Alias(models.Model):
    """``name`` is what callers ask for; empty ``upstream_model``: the replicas know it as ``name``.

    ``others``: more targets, each an object with pool, upstream_model, weight (its part of the
    calls, where this row's own is ``weight``) and fallback (only when no other can serve).
    """

    name = models.CharField(max_length=MODEL_CHARACTERS, unique=True)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="aliases")
    upstream_model = models.CharField(max_length=MODEL_CHARACTERS, blank=True)
    weight = models.PositiveIntegerField(default=1)
    others = models.JSONField(default=list)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("name",)
        verbose_name_plural = "aliases"

    def __str__(self) -> str:
        return self.name


class Replica(models.Model):
    """One inference server. ``sealed_api_key`` is encrypted and never leaves the gateway.

    0 context tokens: as its pool. ``slots``: calls in its running batch at most. ``tenants``: whose
    calls it runs, empty: everybody's. ``band_from_tokens``, ``band_to_tokens``: the prompt lengths
    that it is meant for; 0 to: no end.
    """

    slug = models.CharField(max_length=SLUG_CHARACTERS, unique=True)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="replicas")
    kind = models.CharField(max_length=40)
    base_url = models.CharField(max_length=300)
    slots = models.PositiveIntegerField(default=32)
    context_tokens = models.PositiveIntegerField(default=0)
    kv_tokens = models.PositiveIntegerField(default=250_000)
    capabilities = models.JSONField(default=list)
    region = models.CharField(max_length=SLUG_CHARACTERS, blank=True)
    tenants = models.JSONField(default=list)
    band_from_tokens = models.PositiveIntegerField(default=0)
    band_to_tokens = models.PositiveIntegerField(default=0)
    state = models.CharField(
        max_length=10, choices=ReplicaSetting.choices, default=ReplicaSetting.ENABLED
    )
    sealed_api_key = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("pool__slug", "slug")
        constraints = (
            models.CheckConstraint(name="replica_has_slots", condition=models.Q(slots__gte=1)),
        )

    def __str__(self) -> str:
        return self.slug


class PolicyParameter(models.Model):
    """A number of a policy that an operator changed; absent rows keep the default of the code.

    ``pool`` is a slug or ``*``.
    """

    name = models.CharField(max_length=60)
    pool = models.CharField(max_length=SLUG_CHARACTERS, default="*")
    value = models.FloatField()
    changed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("name", "pool")
        constraints = (
            models.UniqueConstraint(name="policy_parameter_once", fields=("name", "pool")),
        )

    def __str__(self) -> str:
        return f"{self.name} of {self.pool}"


class CallExplanation(models.Model):
    """Why one call went where it went, or nowhere. Kept for calls that were refused, failed or
    retried, and for one of a hundred others, for seven days."""

    call_id = models.CharField(max_length=64, unique=True)
    at = models.DateTimeField(db_index=True)
    told = models.JSONField()

    def __str__(self) -> str:
        return self.call_id
