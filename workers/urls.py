"""Addresses of the pages."""

from __future__ import annotations

from django.urls import URLPattern, path

from workers import pages

app_name = "workers"
urlpatterns: list[URLPattern] = [path("batches/", pages.batches, name="batches")]
