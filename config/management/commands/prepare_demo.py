"""Migrates the database, collects static files and seeds the demo; used by ``make run``.

Reads what is wished from standard input and writes the facts of the run to standard output, both as
JSON: keys and passwords never appear among the arguments of a process.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from config.demo_seed import seed
from tenants.errors import TenancyError


class Command(BaseCommand):
    help = "Prepare the database and the demo (JSON on standard input and output)."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        wish = json.load(sys.stdin)
        call_command("migrate", interactive=False, verbosity=0)
        _collect_static()
        try:
            facts = seed(wish)
        except TenancyError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(json.dumps(facts))


def _collect_static() -> None:
    """Only when a file is new, gone or changed since the last time."""
    listing = hashlib.sha256()
    for finder in get_finders():
        for path, storage in finder.list([]):
            modified = storage.get_modified_time(path).timestamp()
            listing.update(f"{path} {storage.size(path)} {modified}\n".encode())
    stamp = settings.VAR_DIR / "static.stamp"
    if not stamp.exists() or stamp.read_text() != listing.hexdigest():
        call_command("collectstatic", interactive=False, verbosity=0, clear=True)
        stamp.write_text(listing.hexdigest())
