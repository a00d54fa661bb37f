"""The refusal of an operation on files or batches as an HTTP answer, in OpenAI's shape."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gateway.core.errors import CallError
from gateway.wire.errors import error_body
from gateway.wire.retry_headers import error_headers

_RNG = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    headers: dict[str, str]
    body: bytes


def refusal(error: CallError) -> Refusal:
    return Refusal(error.status, error_headers(error, _RNG), error_body(error))
