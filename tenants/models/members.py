"""People: members of organizations, and operators of the whole installation."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from tenants.models.organizations import Organization


class Role(models.TextChoices):
    OWNER = "owner"
    MEMBER = "member"
    VIEWER = "viewer"


class Member(models.Model):
    organization = models.ForeignKey(Organization, on_delete=models.CASCADE, related_name="members")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships"
    )
    role = models.CharField(max_length=8, choices=Role.choices)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("organization", "user")
        constraints = (
            models.UniqueConstraint(name="member_once", fields=("organization", "user")),
            models.CheckConstraint(
                name="member_role_known", condition=models.Q(role__in=Role.values)
            ),
        )

    def __str__(self) -> str:
        return f"{self.user} ({self.role})"


class Operator(models.Model):
    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="operator"
    )
    created_at = models.DateTimeField(default=timezone.now)
    disabled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("user",)

    def __str__(self) -> str:
        return str(self.user)
