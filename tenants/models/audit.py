"""Who changed what, from what to what, and why. Rows are only ever added: triggers see to it."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from tenants.wording import SLUG_CHARACTERS, TEXT_CHARACTERS


class AuditEntry(models.Model):
    """``target`` is ``kind:id``; ``tenant`` is the slug it belongs to, empty for none.

    ``undoes`` is the id of the entry that this one took back.
    """

    at = models.DateTimeField(default=timezone.now)
    actor = models.CharField(max_length=200)
    address = models.CharField(max_length=64, blank=True)
    action = models.CharField(max_length=60)
    target = models.CharField(max_length=120)
    tenant = models.CharField(max_length=SLUG_CHARACTERS, blank=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    why = models.CharField(max_length=TEXT_CHARACTERS, blank=True)
    config_version = models.BigIntegerField()
    undoes = models.BigIntegerField(null=True)

    class Meta:
        ordering = ("-id",)
        indexes = (
            models.Index(name="audit_of_tenant", fields=("tenant", "-id")),
            models.Index(name="audit_of_target", fields=("target", "action", "-id")),
        )

    def __str__(self) -> str:
        return f"{self.id} {self.action} {self.target}"


class ConfigVersion(models.Model):
    """One row; every write that running gateways must see adds one in its own transaction."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    version = models.BigIntegerField(default=0)
    changed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = (
            models.CheckConstraint(name="config_version_one_row", condition=models.Q(id=1)),
        )

    def __str__(self) -> str:
        return str(self.version)
