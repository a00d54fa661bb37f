"""What every endpoint of one style owes to a wrong request."""

from __future__ import annotations

from typing import Any

from tests.conformance.server import Answer, expect, expect_equal, expect_kind


def openai_error(answer: Answer, status: int, *, param: str | None = None) -> dict[str, Any]:
    """``param``: the field that must be named."""
    expect_equal(answer.status, status, "the status")
    told = answer.json()
    expect_kind(told.get("error"), dict, "`error`")
    error: dict[str, Any] = told["error"]
    expect_kind(error.get("message"), str, "`error.message`")
    expect(error["message"], "`error.message` is empty")
    expect_kind(error.get("type"), str, "`error.type`")
    for name in ("param", "code"):
        expect(name in error, f"`error.{name}` is missing")
    if param is not None:
        expect_equal(error["param"], param, "`error.param`")
    return error


def anthropic_error(answer: Answer, status: int, kind: str) -> dict[str, Any]:
    expect_equal(answer.status, status, "the status")
    told = answer.json()
    expect_equal(told.get("type"), "error", "`type`")
    expect_kind(told.get("error"), dict, "`error`")
    error: dict[str, Any] = told["error"]
    expect_equal(error.get("type"), kind, "`error.type`")
    expect_kind(error.get("message"), str, "`error.message`")
    expect(error["message"], "`error.message` is empty")
    return error
