"""How the data plane's own paths appear on the page of the API. They are OpenAI's and Anthropic's;
only what is added to them is described.
"""

from __future__ import annotations

from typing import Any

from gateway.core.reasons import REASONS

ADDED_HEADERS = {
    "x-fairway-priority": "interactive, standard or batch; clamped to the key's grant",
    "x-fairway-deadline-ms": "Milliseconds from arrival after which the answer is of no use",
    "x-request-id": "Returned as it came",
}


def _refusals(overloaded: int = 503) -> dict[str, Any]:
    """Every status that a call may get, with its reasons. ``overloaded`` is what the API says
    instead of 503."""
    by_status: dict[int, list[str]] = {}
    for reason, facts in REASONS.items():
        for status in filter(None, (facts.status, facts.dispatched_status)):
            told = overloaded if status == 503 else status
            by_status.setdefault(told, []).append(f"`{reason}`: {facts.meaning}")
    return {
        str(status): {"description": "\n\n".join(reasons)}
        for status, reasons in sorted(by_status.items())
        if status != 499  # nobody is there to read it
    }


OPENAI = "As OpenAI's; with `stream`, server-sent events that end in [DONE]"
VECTORS = "As OpenAI's; never a stream"
ITEMS = "As OpenAI's, nothing is stored; with `stream`, its events up to `response.completed`"
ANTHROPIC = "As Anthropic's; with `stream`, server-sent events that end in message_stop"
COUNTED = "As the API's; counted by the replica that x-fairway-replica names, else estimated"


def _generation(summary: str, answer: str = OPENAI, overloaded: int = 503) -> dict[str, Any]:
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
    return {
        "post": {
            "tags": ["inference"],
            "summary": summary,
            "parameters": headers,
            "requestBody": {"content": {"application/json": {"schema": body}}, "required": True},
            "responses": {"200": {"description": answer}, **_refusals(overloaded)},
        }
    }


INFERENCE_PATHS: dict[str, Any] = {
    "/v1/chat/completions": _generation("A chat"),
    "/v1/completions": _generation("A completion"),
    "/v1/embeddings": _generation("Vectors of texts", VECTORS),
    "/v1/responses": _generation("A response", ITEMS),
    "/v1/responses/input_tokens": _generation("The tokens of a response's prompt", COUNTED),
    "/v1/messages": _generation("A message", ANTHROPIC, 529),
    "/v1/messages/count_tokens": _generation("The tokens of a message's prompt", COUNTED, 529),
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
