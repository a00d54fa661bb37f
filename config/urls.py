"""Where is what? Pages of the dashboard, accounts, the control API."""

from __future__ import annotations

from importlib.util import find_spec

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [path("accounts/", include("allauth.urls"))]
if find_spec("config.api"):
    urlpatterns.append(path("api/v1/", include("config.api")))
if find_spec("dashboard.urls"):
    urlpatterns.append(path("", include("dashboard.urls")))
