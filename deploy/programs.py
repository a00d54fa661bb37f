"""Which programs make a local run, and which pools do their replicas form?

Without ``REPLICAS``: two llama.cpp servers with a small real model (where the platform has them)
and three simulated GPU replicas in one process. With it: the servers named there, as one pool.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from dataclasses import asdict, dataclass, field
from typing import Any

from deploy import llamacpp
from deploy.children import Program, say
from deploy.errors import CannotRun
from deploy.ports import Ports

REAL_POOL = "smollm2-135m"
SIMULATED_POOL = "sim-llama-8b"
REAL_REPLICAS = 2
SIMULATED_REPLICAS = 3
SEQUENCES = 32
DRAIN_GRACE_S = 40.0
MANAGE = (sys.executable, "manage.py")


@dataclass(frozen=True, slots=True)
class Server:
    slug: str
    kind: str
    base_url: str
    slots: int


@dataclass(frozen=True, slots=True)
class PoolOf:
    """``model`` is what callers ask for, ``upstream_model`` what the replicas call it."""

    slug: str
    model: str
    upstream_model: str
    context_tokens: int
    servers: list[Server] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Fleet:
    pools: list[PoolOf]
    programs: list[Program]

    @property
    def own_servers(self) -> list[Server]:
        """Those that this run starts itself."""
        return [server for pool in self.pools for server in pool.servers if self.programs]


def fleet(ports: Ports, addresses: list[str]) -> Fleet:
    """The real pool first: its model is the one that is shown."""
    if addresses:
        return Fleet([named_pool(addresses)], [])
    pools, programs = _real(ports)
    simulated, program = _simulated(ports)
    return Fleet([*pools, simulated], [*programs, program])


def product(port: int) -> list[Program]:
    celery = (sys.executable, "-m", "celery", "-A", "config.celery")
    worker = (*celery, "worker", "--loglevel=INFO", "--concurrency=2")
    return [
        Program(
            "gateway",
            (*MANAGE, "serve", "--host", "127.0.0.1", "--port", str(port)),
            grace_s=DRAIN_GRACE_S,
            wave=1,
        ),
        Program("worker", worker, grace_s=35.0, wave=2),
        Program("beat", (*celery, "beat", "--loglevel=INFO"), wave=2),
    ]


def named_pool(addresses: list[str]) -> PoolOf:
    """Asks the first server for its model. Raises CannotRun."""
    try:
        with urllib.request.urlopen(f"{addresses[0]}/v1/models", timeout=10) as answer:
            model = json.load(answer)["data"][0]
    except (OSError, LookupError, ValueError) as error:
        raise CannotRun(
            f"REPLICAS: {addresses[0]}/v1/models does not answer with a model ({error}): start that"
            ' server, or name others as in REPLICAS="http://host:8000".'
        ) from None
    kind = model.get("owned_by")
    kind = kind if kind in ("vllm", "llamacpp") else "openai"
    servers = [
        Server(f"replica-{number}", kind, address.rstrip("/"), SEQUENCES)
        for number, address in enumerate(addresses, 1)
    ]
    slug = re.sub(r"[^a-z0-9]+", "-", model["id"].lower()).strip("-")[:40]
    context_tokens = model.get("max_model_len") or (model.get("meta") or {}).get("n_ctx") or 0
    return PoolOf(slug, model["id"], model["id"], context_tokens, servers)


def _real(ports: Ports) -> tuple[list[PoolOf], list[Program]]:
    weights = llamacpp.model_file()
    if weights is None:
        say(f"no llama.cpp on this platform: the pool {REAL_POOL} is left out")
        return [], []
    servers, programs = [], []
    for number in range(1, REAL_REPLICAS + 1):
        name = f"llamacpp-{number}"
        port = ports.block(name)
        command = (sys.executable, "-m", "deploy.llamacpp", str(weights), str(port), REAL_POOL)
        programs.append(Program(name, command))
        servers.append(Server(name, "llamacpp", f"http://127.0.0.1:{port}", llamacpp.SLOTS))
    pool = PoolOf(REAL_POOL, REAL_POOL, REAL_POOL, llamacpp.CONTEXT_TOKENS, servers)
    return [pool], programs


def _simulated(ports: Ports) -> tuple[PoolOf, Program]:
    first = ports.block("simulated", SIMULATED_REPLICAS)
    options = {
        "--port": first,
        "--count": SIMULATED_REPLICAS,
        "--sequences": SEQUENCES,
        "--model": SIMULATED_POOL,
    }
    words = [str(word) for option in options.items() for word in option]
    servers = [
        Server(f"simulated-{n + 1}", "simulated", f"http://127.0.0.1:{first + n}", SEQUENCES)
        for n in range(SIMULATED_REPLICAS)
    ]
    program = Program("simulated", (*MANAGE, "simulated_replica", *words))
    return PoolOf(SIMULATED_POOL, SIMULATED_POOL, SIMULATED_POOL, 8192, servers), program
