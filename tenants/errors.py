"""What can go wrong in a service, in words that a page, the API and a command show unchanged.

``next_step`` says what to do now. ``field`` names the argument at fault, where there is one.
"""

from __future__ import annotations


class TenancyError(Exception):
    """``status`` is the HTTP status of the control API, ``code`` its stable name."""

    status = 400
    code = "refused"

    def __init__(self, message: str, *, next_step: str = "", field: str | None = None) -> None:
        self.message = message
        self.next_step = next_step
        self.field = field
        super().__init__(f"{message} {next_step}".strip())


class NotAllowed(TenancyError):
    """The principal is known to the tenant, but its role may not do this."""

    status = 403
    code = "not_permitted"


class NotFound(TenancyError):
    """Absent, or of a tenant that the principal has nothing to do with: both look the same."""

    status = 404
    code = "not_found"


class AlreadyExists(TenancyError):
    status = 409
    code = "already_exists"


class Stale(TenancyError):
    """Somebody else changed it since it was read. Nothing was written."""

    status = 409
    code = "changed_meanwhile"


class Invalid(TenancyError):
    """A value is malformed or out of range."""

    status = 422
    code = "invalid_value"
