"""nginx and HAProxy as Debian packages them, in front of a port of ours, for tests."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import free_port, listens, wait_until

NGINX = """
daemon off; master_process off; pid {directory}/pid; error_log /dev/null;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_header_timeout 200ms; client_body_timeout 200ms; keepalive_timeout 100ms;
  lingering_close off;
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/f; uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
  upstream fairway {{ server 127.0.0.1:{upstream}; keepalive 4; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://fairway; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_request_buffering off; proxy_read_timeout 2s;
    }}
  }}
}}
"""
HAPROXY = """
global
  maxconn 256
defaults
  mode http
  timeout connect 2s
  timeout client 300ms
  timeout server 2s
  timeout http-request 200ms
  timeout http-keep-alive 100ms
  http-reuse always
frontend all
  bind 127.0.0.1:{port}
  default_backend fairway
backend fairway
  server one 127.0.0.1:{upstream}
"""
COMMANDS = {
    "nginx": ("nginx", "-e", "/dev/null", "-c"),
    "haproxy": ("haproxy", "-db", "-q", "-f"),
}
FILES = {"nginx": NGINX, "haproxy": HAPROXY}


@contextlib.contextmanager
def proxy(name: str, upstream: int, directory: Path) -> Iterator[int]:
    """Its port. Skips where the program is not installed."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    port = free_port()
    file = directory / f"{name}.conf"
    file.write_text(FILES[name].format(directory=directory, upstream=upstream, port=port))
    process = subprocess.Popen(
        [*COMMANDS[name], str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: listens(port), name)
        yield port
    finally:
        process.kill()
        process.wait()
