"""Why a local run, a test or the traffic cannot go on."""

from __future__ import annotations


class CannotRun(Exception):
    """One line that says what to do next."""
