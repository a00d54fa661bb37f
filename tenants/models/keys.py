"""API keys. A row holds what a key may do and the keyed hash of its secret, never the secret."""

from __future__ import annotations

from enum import StrEnum

from django.db import models
from django.utils import timezone

from gateway.core.priority import PriorityClass
from tenants.key_format import ID_CHARACTERS
from tenants.models.organizations import CLASS_CHOICES, Organization
from tenants.wording import NAME_CHARACTERS


class Scope(StrEnum):
    INFERENCE = "inference"
    BATCH = "batch"
    USAGE = "usage"
    MANAGE = "manage"


class ApiKey(models.Model):
    """Empty ``allowed_models`` or ``allowed_networks`` restrict nothing.

    ``hint`` is the secret's last four characters, a part of its checksum. ``rotated_to`` is the
    successor that lives beside this key until ``expires_at``.
    """

    key_id = models.CharField(max_length=ID_CHARACTERS, unique=True)
    organization = models.ForeignKey(Organization, on_delete=models.CASCADE, related_name="keys")
    label = models.CharField(max_length=NAME_CHARACTERS)
    digest = models.BinaryField(max_length=32)
    hint = models.CharField(max_length=4)
    scopes = models.JSONField()
    allowed_models = models.JSONField(default=list)
    allowed_networks = models.JSONField(default=list)
    highest_class = models.SmallIntegerField(choices=CLASS_CHOICES)
    default_class = models.SmallIntegerField(choices=CLASS_CHOICES)
    created_at = models.DateTimeField(default=timezone.now)
    created_by = models.CharField(max_length=200)
    expires_at = models.DateTimeField(null=True, blank=True)
    disabled_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    rotated_to = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL)

    class Meta:
        ordering = ("-created_at", "key_id")
        constraints = (
            models.CheckConstraint(
                name="key_classes_known",
                condition=models.Q(
                    highest_class__in=[int(c) for c in PriorityClass],
                    default_class__in=[int(c) for c in PriorityClass],
                ),
            ),
            models.CheckConstraint(
                name="key_default_class_granted",
                condition=models.Q(default_class__gte=models.F("highest_class")),
            ),
        )

    def __str__(self) -> str:
        return self.key_id

    @property
    def masked(self) -> str:
        return f"fw-{self.key_id}-…{self.hint}"

    @property
    def enabled(self) -> bool:
        return self.disabled_at is None
