"""The tenants' control API alone."""

from __future__ import annotations

from django.urls import path
from ninja import NinjaAPI

from tenants.api import router

api = NinjaAPI(urls_namespace="tenants-alone")
api.add_router("", router)
urlpatterns = [path("api/", api.urls)]
