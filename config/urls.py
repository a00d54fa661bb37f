"""Where is what? Pages first, then accounts, then the API, whose root is ours to leave empty."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

from config.api import api

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("dashboard.urls")),
    path("", include("workers.urls")),
    path("accounts/", include("allauth.urls")),
    path("", api.urls),
]
