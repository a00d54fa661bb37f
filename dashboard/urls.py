"""Addresses of the pages."""

from __future__ import annotations

from django.urls import URLPattern, path

from dashboard.views import audit, calls, home, keys, policy

app_name = "dashboard"
urlpatterns: list[URLPattern] = [
    path("", home.home, name="home"),
    path("limits/", home.limits, name="limits"),
    path("organization/", home.choose_organization, name="organization"),
    path("tenants/<slug:slug>/policy/", policy.policy, name="policy"),
    path("audit/", audit.audit, name="audit"),
    path("audit/latest/", audit.latest, name="audit_latest"),
    path("audit/<int:entry_id>/undo/", policy.undo_change, name="undo"),
    path("keys/", keys.keys, name="keys"),
    path("keys/<str:key_id>/rotate/", keys.rotate, name="key_rotate"),
    path("keys/<str:key_id>/disable/", keys.disable, name="key_disable"),
    path("keys/<str:key_id>/enable/", keys.enable, name="key_enable"),
    path("calls/", calls.calls, name="calls"),
    path("calls/<str:call_id>/", calls.call, name="call"),
]
