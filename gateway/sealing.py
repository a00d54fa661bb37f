"""How are the API keys of replicas kept? Encrypted, with a key derived from SECRET_KEY.

Fernet: AES-128 in CBC mode with an HMAC. A changed SECRET_KEY makes them unreadable: they must
then be set again.
"""

from __future__ import annotations

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings

_PURPOSE = b"fairway replica api key\0"


class Unsealable(Exception):
    """Sealed under another SECRET_KEY, or damaged."""


def seal(text: str) -> str:
    """Empty stays empty."""
    return _fernet().encrypt(text.encode()).decode() if text else ""


def unseal(sealed: str) -> str:
    """Raises Unsealable."""
    try:
        return _fernet().decrypt(sealed.encode()).decode() if sealed else ""
    except InvalidToken:
        raise Unsealable from None


def _fernet() -> Fernet:
    digest = hashlib.sha256(_PURPOSE + settings.FAIRWAY_GATEWAY.secret_key).digest()
    return Fernet(base64.urlsafe_b64encode(digest))
