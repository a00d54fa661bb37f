"""Built into every template: a form that carries a CSRF token carries its page's organization."""

from __future__ import annotations

from django import template
from django.template.context import Context
from django.template.defaulttags import CsrfTokenNode
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard.tabs import FIELD

register = template.Library()


@register.simple_tag(takes_context=True)
def csrf_token(context: Context) -> SafeString:
    """Django's own, and what ``dashboard.tabs`` compares."""
    token = CsrfTokenNode().render(context)
    tenant = getattr(context.get("viewer"), "tenant", None)
    hidden = '<input type="hidden" name="{}" value="{}">'
    return format_html("{}{}", token, format_html(hidden, FIELD, tenant) if tenant else "")
