"""The gateway's control API alone."""

from __future__ import annotations

from django.urls import path
from ninja import NinjaAPI

from gateway.api import router

api = NinjaAPI(urls_namespace="gateway-alone")
api.add_router("", router)
urlpatterns = [path("api/", api.urls)]
