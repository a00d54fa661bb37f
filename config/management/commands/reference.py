"""Writes docs/reference.md from the code."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from config.reference import page


class Command(BaseCommand):
    help = "Write the tables of settings, reasons and metrics to docs/reference.md."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        target = settings.BASE_DIR / "docs" / "reference.md"
        target.write_text(page())
        self.stdout.write(f"{target.name} is written.")
