"""The page of batches: the newest, running and ended. A member sees those of the own tenant."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from dashboard.access import Viewer, page
from workers.selectors import recent_batches

NEWEST = 50


@page
def batches(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    rows = recent_batches(None if viewer.is_operator else viewer.tenant, NEWEST)
    context = {"viewer": viewer, "here": "batches", "batches": rows, "newest": NEWEST}
    return render(request, "workers/batches.html", context)
