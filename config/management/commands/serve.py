"""Serves calls, pages or both until SIGTERM, then drains and ends as soon as it is idle."""

from __future__ import annotations

import socket
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.urls import get_resolver

from config.unsafe import is_loopback

SWITCH_INTERVAL_S = 0.0005  # a page's thread may keep the loop waiting so long


class Command(BaseCommand):
    help = "Serve the gateway and its pages."
    requires_system_checks: list[str] = []  # noqa: RUF012

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=settings.PORT, help="0: any free port")
        parser.add_argument("--role", choices=["all", "gateway", "web"], default="all")
        parser.add_argument(
            "--health-port", type=int, help="the probes answer here too, with places of their own"
        )
        parser.add_argument("--workers", type=int, default=1)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["workers"] != 1:
            raise CommandError(
                "--workers: one process schedules a cell; start further ones with --role web."
            )
        if settings.SECRETS_ARE_PUBLIC and not is_loopback(options["host"]):
            raise CommandError(
                "--host: FAIRWAY_DEBUG serves this machine only, since its secrets are public:"
                " set SECRET_KEY and FAIRWAY_KEY_PEPPER instead."
            )
        if options["role"] == "web" and not settings.REDIS_URL:
            raise CommandError("--role web gets its live figures through Redis: set REDIS_URL.")
        from config.asgi import Fronts
        from config.composition import Role
        from config.server import listen, serve

        sys.setswitchinterval(SWITCH_INTERVAL_S)
        if options["role"] != "gateway":
            _load_pages()
        listener = _listening(listen, options["host"], options["port"], "--port")
        health_port = options["health_port"]
        health = None
        if health_port is not None:
            health = _listening(listen, options["host"], health_port, "--health-port")
        for word, each in (("listening", listener), ("probes", health)):
            if each is not None:
                self.stdout.write(f"{word} on http://{options['host']}:{each.getsockname()[1]}")
        self.stdout.flush()
        serve(Fronts(Role(options["role"])), listener, health)


def _load_pages() -> None:
    """Now: the first request of a page would keep the event loop for about a second with it."""
    _ = get_resolver().url_patterns


def _listening(
    listen: Callable[[str, int], socket.socket], host: str, port: int, option: str
) -> socket.socket:
    try:
        return listen(host, port)
    except OSError as error:
        raise CommandError(
            f"Cannot listen on {host}:{port} ({error.strerror}); choose another with {option}."
        ) from None
