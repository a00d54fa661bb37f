"""The accounts that people sign in with. Members and operators refer to them.

Where an account is made without a password, a random one is returned, once.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from tenants.actors import Actor
from tenants.errors import AlreadyExists, Invalid, NotFound
from tenants.services import audit, versions
from tenants.services.transactions import transactional
from tenants.wording import printable

_USERNAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")


@dataclass(frozen=True, slots=True)
class Account:
    """``password`` is set where one was made up here; it cannot be read again."""

    username: str
    password: str | None = field(repr=False)


@transactional
def reset_password(
    *, username: str, actor: Actor, password: str | None = None, why: str = ""
) -> Account:
    """Ends the account's sessions, because they are bound to the old password."""
    versions.bump()
    user = get_user_model().objects.filter(username=username).first()
    if user is None:
        raise NotFound(
            f"There is no account {printable(username)}.",
            next_step="Create an operator or add a member of that name.",
        )
    made_up = _set_password(user, password)
    user.save(update_fields=("password",))
    audit.record(
        actor=actor,
        action="account.reset_password",
        target=f"account:{username}",
        before=None,
        after=None,
        why=why,
    )
    return Account(username, made_up)


def find_or_make(username: str, password: str | None) -> tuple[User, str | None]:
    """The account of that name, and the password where one was made up for it."""
    if not _USERNAME.fullmatch(username):
        raise Invalid(
            f"{printable(username)} is not a user name.",
            next_step="Use 1 to 100 of letters, digits and . _ @ + -, a letter or digit first.",
            field="username",
        )
    users = get_user_model().objects
    if existing := users.filter(username__iexact=username).first():
        if existing.username != username:
            raise AlreadyExists(
                f"{username} looks like {existing.username}.", next_step="Choose another name."
            )
        return existing, None
    user = get_user_model()(username=username)
    made_up = _set_password(user, password)
    user.save()
    return user, made_up


def _set_password(user: User, password: str | None) -> str | None:
    """Returns the password where it was made up here. Raises Invalid."""
    chosen = secrets.token_urlsafe(18) if password is None else password
    try:
        validate_password(chosen, user)
    except ValidationError as error:
        raise Invalid(
            " ".join(error.messages), next_step="Choose another password.", field="password"
        ) from error
    user.set_password(chosen)
    return chosen if password is None else None
