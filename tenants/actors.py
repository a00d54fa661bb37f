"""Who does something? The name and kind that an audit row keeps, with the address it came from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ActorKind(StrEnum):
    USER = "user"
    KEY = "key"
    COMMAND = "command"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Actor:
    """``name`` is a user name, a key id, a command or a periodic task."""

    kind: ActorKind
    name: str
    address: str = ""

    @classmethod
    def user(cls, username: str, address: str = "") -> Actor:
        return cls(ActorKind.USER, username, address)

    @classmethod
    def key(cls, key_id: str, address: str = "") -> Actor:
        return cls(ActorKind.KEY, key_id, address)

    @classmethod
    def command(cls, name: str) -> Actor:
        return cls(ActorKind.COMMAND, name)

    @classmethod
    def system(cls, name: str) -> Actor:
        return cls(ActorKind.SYSTEM, name)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"
