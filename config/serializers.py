"""How is a value of the shared cache written? As JSON: what Redis holds can never run code here."""

from __future__ import annotations

import json


class JsonSerializer:
    def dumps(self, value: object) -> bytes | int:
        """A plain integer stays one, so that Redis can increment it."""
        return value if type(value) is int else json.dumps(value).encode()

    def loads(self, data: bytes) -> object:
        try:
            return int(data)
        except ValueError:
            return json.loads(data)
