"""The proxies that are compared, each started as its own documentation says, with one worker.

  fairway      everything on: keys, quota in Redis where there is one, queue, routing, ledger
  nginx        a plain proxy with kept connections: the floor
  vllm-router  the Rust router; no keys, no quota
  litellm      the proxy; a master key, no database

Who is not installed is left out with a word.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.edge.load import Target
from benchmarks.edge.replica import MODEL
from deploy.bench import PEERS
from tests.e2e.installation import prepared
from tests.e2e.operator import operator_of
from tests.servers import free_port, redis_server, wait_until

SLOTS = 1_024
KEY = "sk-bench"
PLENTY = {"tpm": 10**9, "rpm": 10**7, "concurrent": 10**5}


class Absent(Exception):
    """Not installed here."""


@dataclass(frozen=True, slots=True)
class Contender:
    target: Target
    pid: int


Start = Callable[[Path, str], AbstractContextManager[Contender]]  # a folder, URL of the replica


@contextlib.contextmanager
def fairway(folder: Path, replica: str) -> Iterator[Contender]:
    server = {"slug": "bench-1", "kind": "vllm", "base_url": replica, "slots": SLOTS}
    names = {"slug": MODEL, "model": MODEL, "upstream_model": MODEL}
    pool = {**names, "context_tokens": 32_768, "servers": [server]}
    with redis_server() as redis:
        settings = {"REDIS_URL": redis.url} if redis is not None else {}
        with prepared(folder, [pool], **settings) as place:
            serving = place.serve()
            olga = operator_of(place)
            tenant = place.facts["tenants"][0]["slug"]
            for meter, amount in PLENTY.items():
                limit = {"meter": meter, "amount": amount, "klass": "online", "why": "bench"}
                told = olga.put(f"/tenants/{tenant}/limits", **limit)
            version = told["config_version"]
            wait_until(lambda: place.series("fairway_config_version") >= version, "the limits")
            wait_until(lambda: olga.get("/replicas/bench-1")["live"] is not None, "the replica")
            headers = {"Authorization": f"Bearer {place.api_key}"}
            yield Contender(Target(place.port, headers, MODEL), serving.pid)


NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 8192; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  client_body_buffer_size 64k; keepalive_requests 1000000;
  upstream replica {{ server {replica}; keepalive 256; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://replica; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""


@contextlib.contextmanager
def nginx(folder: Path, replica: str) -> Iterator[Contender]:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        raise Absent("nginx is not on the PATH")
    port = free_port()
    config = folder / "nginx.conf"
    host = replica.removeprefix("http://")
    config.write_text(NGINX.format(folder=folder, replica=host, port=port))
    with _running([program, "-c", str(config)], folder, port, "/health") as pid:
        yield Contender(Target(port, {}, MODEL), pid)


@contextlib.contextmanager
def vllm_router(folder: Path, replica: str, *, policy: str = "cache_aware") -> Iterator[Contender]:
    """With its default policy, which like ours looks for the prompt."""
    port = free_port()
    command = [str(_program("vllm-router")), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--worker-urls", replica, "--policy", policy]
    command += ["--prometheus-port", str(free_port())]
    with _running(command, folder, port, "/health") as pid:
        yield Contender(Target(port, {}, MODEL), pid)


LITELLM = """
model_list:
  - model_name: {model}
    litellm_params: {{model: openai/{model}, api_base: "{replica}/v1", api_key: none}}
general_settings: {{master_key: {key}}}
litellm_settings: {{telemetry: false}}
"""


@contextlib.contextmanager
def litellm(folder: Path, replica: str) -> Iterator[Contender]:
    port = free_port()
    config = folder / "litellm.yaml"
    config.write_text(LITELLM.format(model=MODEL, replica=replica, key=KEY))
    command = [str(_program("litellm")), "--config", str(config), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--num_workers", "1"]
    with _running(command, folder, port, "/health/liveliness") as pid:
        yield Contender(Target(port, {"Authorization": f"Bearer {KEY}"}, MODEL), pid)


CONTENDERS: dict[str, Start] = {
    "fairway": fairway,
    "nginx": nginx,
    "vllm-router": vllm_router,
    "vllm-router-rr": partial(vllm_router, policy="round_robin"),
    "litellm": litellm,
}


@contextlib.contextmanager
def replica() -> Iterator[str]:
    """The URL of a replica in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.edge.replica"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().split()[1]
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _program(name: str) -> Path:
    program = PEERS / name / "bin" / name
    if not program.exists():
        raise Absent(f"{name} is not installed in {PEERS / name}")
    return program


@contextlib.contextmanager
def _running(command: list[str], folder: Path, port: int, path: str) -> Iterator[int]:
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "127.0.0.1"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, **quiet}, cwd=folder
        )
        try:
            wait_until(lambda: process.poll() is not None or _answers(port, path), command[0], 90)
            if process.poll() is not None:
                raise Absent(f"it ended: {(folder / 'log').read_text()[-300:]}")
            yield process.pid
        finally:
            process.terminate()
            process.wait(20)


def _answers(port: int, path: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
