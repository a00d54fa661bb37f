"""Files, batches and their lines. Text of prompts and answers is in files, never in a row.

Tenant and key are text, as everywhere outside ``tenants``. A line's row says where in the input
file its request is, and where in a part file of results its answer is. All moments are UTC.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

from django.db import models

ID_CHARACTERS = 48
NAME_CHARACTERS = 80
FILENAME_CHARACTERS = 255
CUSTOM_ID_CHARACTERS = 512


class Purpose(StrEnum):
    BATCH = "batch"
    OUTPUT = "batch_output"


class Status(StrEnum):
    """Of a batch. The last four are final."""

    VALIDATING = "validating"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


UNFINISHED = (Status.VALIDATING, Status.IN_PROGRESS, Status.FINALIZING, Status.CANCELLING)


class LineState(IntEnum):
    WAITING = 0
    LEASED = 1
    COMPLETED = 2
    FAILED = 3


class StoredFile(models.Model):
    """``file_id`` is random: it names the file on disk and cannot be guessed."""

    file_id = models.CharField(max_length=ID_CHARACTERS, primary_key=True)
    tenant = models.CharField(max_length=NAME_CHARACTERS)
    key_id = models.CharField(max_length=NAME_CHARACTERS)
    purpose = models.CharField(max_length=20)
    filename = models.CharField(max_length=FILENAME_CHARACTERS)
    size_bytes = models.BigIntegerField()
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        ordering = ("-created_at", "-file_id")
        indexes = (
            models.Index(name="file_tenant_created", fields=("tenant", "created_at")),
            models.Index(name="file_expires", fields=("expires_at",)),
        )

    def __str__(self) -> str:
        return self.file_id


class Batch(models.Model):
    """``closing_as`` is the final status that a batch in finalizing or cancelling is to get.

    ``busy_until`` is the lease of whoever validates or closes it; ``paused_until`` is when the
    gateway said there would be capacity; ``sent_at`` is when a message last pointed at it. Counters
    change in the transaction that changes the lines they count.
    """

    batch_id = models.CharField(max_length=ID_CHARACTERS, primary_key=True)
    tenant = models.CharField(max_length=NAME_CHARACTERS)
    key_id = models.CharField(max_length=NAME_CHARACTERS)
    input_file_id = models.CharField(max_length=ID_CHARACTERS)
    endpoint = models.CharField(max_length=NAME_CHARACTERS)
    completion_window = models.CharField(max_length=10)
    metadata = models.JSONField(null=True)
    output_seconds = models.IntegerField(null=True)
    status = models.CharField(max_length=12, default=Status.VALIDATING)
    closing_as = models.CharField(max_length=12, blank=True)
    model = models.CharField(max_length=200, blank=True)
    errors = models.JSONField(default=list)
    total = models.IntegerField(default=0)
    completed = models.IntegerField(default=0)
    failed = models.IntegerField(default=0)
    input_tokens = models.BigIntegerField(default=0)
    cached_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    reasoning_tokens = models.BigIntegerField(default=0)
    output_file_id = models.CharField(max_length=ID_CHARACTERS, blank=True)
    error_file_id = models.CharField(max_length=ID_CHARACTERS, blank=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    in_progress_at = models.DateTimeField(null=True)
    finalizing_at = models.DateTimeField(null=True)
    cancelling_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    busy_until = models.DateTimeField(null=True)
    paused_until = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-created_at", "-batch_id")
        indexes = (
            models.Index(name="batch_tenant_created", fields=("tenant", "created_at")),
            models.Index(name="batch_status", fields=("status", "finished_at")),
        )
        constraints = (
            models.CheckConstraint(
                name="batch_counts_add_up",
                condition=models.Q(total__gte=models.F("completed") + models.F("failed")),
            ),
        )

    def __str__(self) -> str:
        return self.batch_id


class BatchLine(models.Model):
    """One request of a batch: bytes ``offset`` to ``offset + length`` of the input file.

    ``attempts`` counts how often it was started, except where the gateway had no capacity;
    ``deaths`` how often the worker that had it died. ``lease_token`` stays after the lease has
    ended: it names the part file where a dead worker may have left the answer. The answer of a
    settled line is at ``part``; where there is none ``error_code`` says why.
    """

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="lines")
    line_no = models.IntegerField()
    custom_id = models.CharField(max_length=CUSTOM_ID_CHARACTERS)
    offset = models.BigIntegerField()
    length = models.IntegerField()
    state = models.SmallIntegerField(default=LineState.WAITING)
    attempts = models.SmallIntegerField(default=0)
    deaths = models.SmallIntegerField(default=0)
    lease_token = models.CharField(max_length=32, blank=True)
    lease_until = models.DateTimeField(null=True)
    not_before = models.DateTimeField(null=True)
    part = models.CharField(max_length=32, blank=True)
    part_offset = models.BigIntegerField(default=0)
    part_length = models.IntegerField(default=0)
    error_code = models.CharField(max_length=40, blank=True)

    class Meta:
        ordering = ("batch", "line_no")
        indexes = (models.Index(name="line_state", fields=("batch", "state", "line_no")),)
        constraints = (
            models.UniqueConstraint(name="line_once", fields=("batch", "line_no")),
            models.UniqueConstraint(name="line_custom_id_once", fields=("batch", "custom_id")),
        )

    def __str__(self) -> str:
        return f"{self.batch_id} line {self.line_no}"
