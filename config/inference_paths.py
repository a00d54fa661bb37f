"""How the data plane's own paths appear on the page of the API. They are OpenAI's; only what is
added to them is described.
"""

from __future__ import annotations

from typing import Any

from gateway.core.reasons import REASONS

ADDED_HEADERS = {
    "x-fairway-priority": "interactive, standard or batch; clamped to the key's grant",
    "x-fairway-deadline-ms": "Milliseconds from arrival after which the answer is of no use",
    "x-request-id": "Returned as it came",
}


def _refusals() -> dict[str, Any]:
    """Every status that a call may get, with its reasons."""
    by_status: dict[int, list[str]] = {}
    for reason, facts in REASONS.items():
        by_status.setdefault(facts.status, []).append(f"`{reason}`: {facts.meaning}")
    return {
        str(status): {"description": "\n\n".join(reasons)}
        for status, reasons in sorted(by_status.items())
        if status != 499  # nobody is there to read it
    }


def _generation(summary: str) -> dict[str, Any]:
    headers = [
        {"name": name, "in": "header", "description": text, "schema": {"type": "string"}}
        for name, text in ADDED_HEADERS.items()
    ]
    body = {
        "type": "object",
        "required": ["model"],
        "properties": {"model": {"type": "string"}, "stream": {"type": "boolean"}},
        "additionalProperties": True,
    }
    answer = {"description": "As OpenAI's; with `stream`, server-sent events that end in [DONE]"}
    return {
        "post": {
            "tags": ["inference"],
            "summary": summary,
            "parameters": headers,
            "requestBody": {"content": {"application/json": {"schema": body}}, "required": True},
            "responses": {"200": answer, **_refusals()},
        }
    }


INFERENCE_PATHS: dict[str, Any] = {
    "/v1/chat/completions": _generation("A chat"),
    "/v1/completions": _generation("A completion"),
    "/v1/models": {
        "get": {
            "tags": ["inference"],
            "summary": "The models that the key may use",
            "responses": {"200": {"description": "As OpenAI's"}, **_refusals()},
        }
    },
}

STREAMED_PATHS: dict[str, Any] = {
    "/v1/files": {
        "post": {
            "tags": ["files and batches"],
            "summary": "Upload a file of requests, as OpenAI's; at most 200 MiB, streamed",
            "requestBody": {
                "required": True,
                "content": {
                    "multipart/form-data": {
                        "schema": {
                            "type": "object",
                            "required": ["purpose", "file"],
                            "properties": {
                                "purpose": {"type": "string", "enum": ["batch"]},
                                "file": {"type": "string", "format": "binary"},
                                "expires_after[anchor]": {"type": "string"},
                                "expires_after[seconds]": {"type": "integer"},
                            },
                        }
                    }
                },
            },
            "responses": {"200": {"description": "The file object"}, **_refusals()},
        }
    },
    "/v1/files/{file_id}/content": {
        "get": {
            "tags": ["files and batches"],
            "summary": "Download a file, as an attachment, streamed",
            "parameters": [
                {"name": "file_id", "in": "path", "required": True, "schema": {"type": "string"}}
            ],
            "responses": {
                "200": {"description": "The bytes", "content": {"application/octet-stream": {}}},
                **_refusals(),
            },
        }
    },
}
