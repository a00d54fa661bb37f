"""The tenants' control API alone."""

from __future__ import annotations

from django.urls import path
from ninja import NinjaAPI

from tenants.api import router
from tenants.control.problems import tell_problems

api = NinjaAPI(urls_namespace="tenants-alone")
api.add_router("", router)
tell_problems(api)
urlpatterns = [path("api/", api.urls)]
