"""How a batch's status is shown."""

from __future__ import annotations

from django import template
from django.utils.safestring import SafeString

from dashboard.templatetags.fairway import state
from workers.models import Status

register = template.Library()
KINDS = {
    Status.COMPLETED: "ok",
    Status.FAILED: "bad",
    Status.EXPIRED: "warn",
    Status.CANCELLED: "idle",
}


@register.simple_tag
def batch_state(status: str) -> SafeString:
    kind = KINDS.get(Status(status), "run")
    return state(kind, status.replace("_", " ").capitalize())
