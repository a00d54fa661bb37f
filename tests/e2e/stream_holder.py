"""A client process that holds streams and never leaves: it is there to be killed.

    python -m tests.e2e.stream_holder PORT KEY MODEL NAME STREAMS

Says the call ids, one JSON list in one line, once each stream has received content. Its streams say
``NAME 0``, ``NAME 1``… to the model.
"""

from __future__ import annotations

import json
import re
import socket
import sys
from socket import SocketIO


def opened(port: int, key: str, model: str, content: str) -> SocketIO:
    """What comes on a connection on which a chat was sent."""
    messages = [{"role": "user", "content": content}]
    chat = {"model": model, "messages": messages, "stream": True, "max_tokens": 200}
    body = json.dumps(chat).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(head.encode() + body)
    return connection.makefile("rb", buffering=0)


def call_id(stream: SocketIO) -> str:
    """Once there is content."""
    said = b""
    while b'"content":"t' not in said:
        said += stream.read(4096) or b""
    found = re.search(rb"x-fairway-call-id: (\S+)", said)
    assert found is not None
    return found[1].decode()


def main() -> None:
    port, key, model, name, streams = sys.argv[1:]
    held = [opened(int(port), key, model, f"{name} {n}") for n in range(int(streams))]
    print(json.dumps([call_id(stream) for stream in held]), flush=True)
    while True:
        for stream in held:
            stream.read(4096)


if __name__ == "__main__":
    main()
