"""One row per call that ended, and one per attempt. Fields mirror ``gateway.core.records``.

Tenant, key, pool, replica and model are text, so that rows outlive what they name. Durations are
seconds, absent where the moment never came. Rows are deleted by age alone.
"""

from __future__ import annotations

from django.db import models

CALL_ID_CHARACTERS = 40
NAME_CHARACTERS = 80
MODEL_CHARACTERS = 200
MESSAGE_CHARACTERS = 500
SAID_CHARACTERS = 300


class LedgerCall(models.Model):
    call_id = models.CharField(max_length=CALL_ID_CHARACTERS, primary_key=True)
    arrived_at = models.DateTimeField()
    tenant = models.CharField(max_length=NAME_CHARACTERS)
    key_id = models.CharField(max_length=NAME_CHARACTERS)
    endpoint = models.CharField(max_length=NAME_CHARACTERS)
    model = models.CharField(max_length=MODEL_CHARACTERS)
    pool = models.CharField(max_length=NAME_CHARACTERS)
    klass = models.SmallIntegerField(null=True)  # null: refused before it was known
    stream = models.BooleanField()
    outcome = models.CharField(max_length=12)
    reason = models.CharField(max_length=40, blank=True)
    status = models.SmallIntegerField()
    replica = models.CharField(max_length=NAME_CHARACTERS, blank=True)
    request_id = models.CharField(max_length=MODEL_CHARACTERS, blank=True)
    prompt_tokens = models.IntegerField()
    cached_tokens = models.IntegerField()
    completion_tokens = models.IntegerField()
    received_tokens = models.IntegerField()
    reserved_tokens = models.BigIntegerField()
    estimated = models.BooleanField()
    charge_microcredits = models.BigIntegerField()
    service_cost = models.FloatField()
    queue_s = models.FloatField(null=True)
    ttft_s = models.FloatField(null=True)
    first_visible_s = models.FloatField(null=True)
    tpot_s = models.FloatField(null=True)
    e2e_s = models.FloatField(null=True)
    duration_s = models.FloatField()
    loop_lag_s = models.FloatField()
    retry_after_s = models.FloatField(null=True)
    message = models.CharField(max_length=MESSAGE_CHARACTERS, blank=True)
    retry_count = models.SmallIntegerField()
    client = models.CharField(max_length=MODEL_CHARACTERS, blank=True)
    batch_id = models.CharField(max_length=NAME_CHARACTERS, blank=True)
    line_no = models.IntegerField(null=True)
    config_version = models.BigIntegerField()
    degraded = models.BooleanField()

    class Meta:
        ordering = ("-arrived_at", "-call_id")
        indexes = (
            models.Index(name="ledger_tenant_arrived", fields=("tenant", "arrived_at")),
            models.Index(name="ledger_arrived", fields=("arrived_at",)),
            models.Index(
                name="ledger_batch_line",
                fields=("batch_id", "line_no"),
                condition=~models.Q(batch_id=""),
            ),
        )
        constraints = (
            models.CheckConstraint(
                name="ledger_counts_not_negative",
                condition=models.Q(
                    prompt_tokens__gte=0,
                    cached_tokens__gte=0,
                    completion_tokens__gte=0,
                    received_tokens__gte=0,
                    charge_microcredits__gte=0,
                ),
            ),
        )

    def __str__(self) -> str:
        return self.call_id


class LedgerAttempt(models.Model):
    """One try of a call on one replica. Offsets are seconds since the call's arrival."""

    call = models.ForeignKey(LedgerCall, on_delete=models.CASCADE, related_name="attempts")
    number = models.SmallIntegerField()
    replica = models.CharField(max_length=NAME_CHARACTERS)
    dispatched_s = models.FloatField()
    ended_s = models.FloatField()
    queue_s = models.FloatField()
    reason = models.CharField(max_length=40, blank=True)
    headers_s = models.FloatField(null=True)
    first_event_s = models.FloatField(null=True)
    first_token_s = models.FloatField(null=True)
    received_tokens = models.IntegerField()
    rule = models.CharField(max_length=NAME_CHARACTERS, blank=True)
    said = models.CharField(max_length=SAID_CHARACTERS, blank=True, default="", db_default="")

    class Meta:
        ordering = ("call", "number")
        constraints = (
            models.UniqueConstraint(name="ledger_attempt_once", fields=("call", "number")),
        )

    def __str__(self) -> str:
        return f"{self.call_id} attempt {self.number}"
