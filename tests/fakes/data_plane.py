"""The whole data plane in virtual time: real pipeline, dispatcher, store and wire; scripted
replicas.

``House`` owns one ``Gateway`` behind in-process ASGI. ``house.call(...)`` is one client: it may
read, or leave at a chosen moment. Events that the gateway published are kept in ``records``.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gateway.active_calls import ActiveCalls
from gateway.assembly import Collaborators, Gateway, Transport
from gateway.bus import EventBus
from gateway.core.clock import Clock
from gateway.core.cost import Prices
from gateway.core.events import CallEnded, Event
from gateway.core.limits.demands import QuotaStore
from gateway.core.limits.limit import Limit
from gateway.core.priority import PriorityClass
from gateway.core.records import CallRecord
from gateway.core.stages import LOOP, MEMORY, Stages
from gateway.pipeline.caller import CALLER, AsgiCaller
from gateway.replicas.upstream import ReplicaTarget
from gateway.settings import GatewaySettings
from gateway.snapshot.values import AliasValue, PoolValue, ReplicaValue, Snapshot
from gateway.stores.memory import MemoryStore
from tenants import key_format
from tenants.snapshot import KeyValue, TenantValue
from tests.fakes.scripted_upstream import ScriptedUpstream

POOL = "pool"
MODEL = "model"
CREATED_AT = 1_700_000_000.5
PEPPER = b"pepper-of-the-tests" * 2
SECRET = b"secret-of-the-tests" * 2
SCOPES = frozenset({"inference"})


class ScriptedTransport(ScriptedUpstream):
    """Implements Transport."""

    async def forget(self, target: ReplicaTarget) -> None:
        pass


class PromptCaller(AsgiCaller):
    """To whom more may be said at once, as our own server offers it."""

    def __init__(self, receive: Any, send: Any, say_now: Callable[[bytes], bool]) -> None:
        super().__init__(receive, send)
        self._say_now = say_now

    def say_now(self, body: bytes) -> bool:
        return self._say_now(body)


class OutOfOrder(RuntimeError):
    """As the server: a body came before the head of its answer."""


@dataclass(slots=True)
class Answer:
    """What one client saw. ``times`` are seconds since it began, one per body message."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    parts: list[bytes] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    ended: bool = False
    at_once: int = 0  # pieces of the body that were written without waiting

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """Of a stream: the contents, joined."""
        return "".join(
            choice["delta"].get("content") or ""
            for event in self.events()
            for choice in event.get("choices", ())
        )

    def events(self) -> list[Any]:
        frames = self.body.decode().split("\n\n")
        data = [frame[6:] for frame in frames if frame.startswith("data: ")]
        return [json.loads(each) for each in data if each != "[DONE]"]

    @property
    def done(self) -> bool:
        return b"data: [DONE]\n\n" in self.body


def tenant(slug: str = "acme", **changes: Any) -> TenantValue:
    value = TenantValue(
        slug=slug,
        name=slug.title(),
        weight=1.0,
        highest_class=PriorityClass.INTERACTIVE,
        suspended=False,
        limits=(),
        cached_ratio=1.0,
        credit_limit_microcredits=None,
        over_limit="stop",
    )
    return replace(value, **changes)


def replica(slug: str, **changes: Any) -> ReplicaValue:
    value = ReplicaValue(
        slug=slug,
        pool=POOL,
        kind="vllm",
        base_url=f"http://{slug}",
        state="enabled",
        slots=4,
        kv_tokens=0,
        serial=1,
        context_tokens=0,
        capabilities=frozenset(),
    )
    return replace(value, **changes)


class House:
    """Build inside the running loop, then ``await open()``; ``await close()`` at the end."""

    def __init__(
        self,
        clock: Clock,
        directory: Path,
        *,
        transport: Transport | None = None,
        store: QuotaStore | None = None,
        tenants: Iterable[TenantValue] = (tenant(),),
        replicas: Iterable[ReplicaValue] = (replica("r1"), replica("r2")),
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.clock = clock
        self.transport = transport or ScriptedTransport()
        self.store: QuotaStore = store or MemoryStore(clock)
        self.active = ActiveCalls(directory / "active-calls", 2048)
        self.bus = EventBus(lambda sink: None)
        self.bus.add_direct("test", self._keep)
        self.records: list[CallRecord] = []
        self.events: list[Event] = []
        self.secrets: dict[str, str] = {}
        self.memory = Stages(MEMORY)
        self.loop = Stages(LOOP)
        self._snapshot = self._first_snapshot(tuple(tenants), tuple(replicas))
        self.gateway = Gateway(
            Collaborators(
                clock,
                random.Random(7),
                self.store,
                self.transport,
                self.active,
                self.bus,
                lambda: self._snapshot,
                lambda: 0.0,
                self.memory,
                self.loop,
            ),
            GatewaySettings(directory, "", PEPPER, SECRET, **(settings or {})),
        )

    async def open(self) -> House:
        self.gateway.apply(self._snapshot)
        return self

    async def close(self) -> None:
        self.gateway.refuse_new()
        await self.gateway.finish()
        self.active.shut()

    @property
    def scripted(self) -> ScriptedTransport:
        assert isinstance(self.transport, ScriptedTransport)
        return self.transport

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    def change(self, **changes: Any) -> None:
        """Swaps the snapshot, as the holder does after a write."""
        self._snapshot = replace(self._snapshot, version=self._snapshot.version + 1, **changes)
        self.gateway.apply(self._snapshot)

    def change_tenant(self, slug: str, **changes: Any) -> None:
        changed = replace(self._snapshot.tenants[slug], **changes)
        self.change(tenants={**self._snapshot.tenants, slug: changed})

    async def call(
        self,
        body: dict[str, Any] | bytes | None = None,
        *,
        tenant: str = "acme",
        path: str = "/v1/chat/completions",
        headers: Mapping[str, str] | None = None,
        leave: asyncio.Event | None = None,
        method: str = "POST",
        reads_for_s: float = 0.0,
        full_every: int = 0,
    ) -> Answer:
        """One client. ``leave`` set = it closes its connection; ``reads_for_s``: each message, and
        nothing is written to it without waiting; ``full_every``: so it is for one piece of so many.
        Returns when the application is done with it."""
        answer = Answer()
        began_s = self.clock.monotonic()
        said, pieces = [_request(body)], 0

        async def receive() -> dict[str, Any]:
            if said:
                return said.pop()
            await (leave or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if reads_for_s:
                await asyncio.sleep(reads_for_s)
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            elif not answer.status:
                raise OutOfOrder
            else:
                answer.parts.append(message["body"])
                answer.times.append(self.clock.monotonic() - began_s)
                answer.ended = not message.get("more_body", False)

        def say_now(body: bytes) -> bool:
            nonlocal pieces
            pieces += 1
            if reads_for_s or not answer.status or (full_every and pieces % full_every == 0):
                return False
            answer.parts.append(body)
            answer.times.append(self.clock.monotonic() - began_s)
            answer.at_once += 1
            return True

        sent = {"authorization": f"Bearer {self.secrets[tenant]}", **(headers or {})}
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "headers": [(k.encode(), v.encode()) for k, v in sent.items()],
            "client": ("127.0.0.1", 5000),
            "extensions": {CALLER: PromptCaller(receive, send, say_now)},
        }
        try:
            await self.gateway.data_plane(scope, receive, send)
        except OutOfOrder:
            answer.status = 500  # in the server's own words
        return answer

    @property
    def leftovers(self) -> dict[str, int]:
        """Everything that must be zero when nothing runs, named, without the zeros."""
        counts = {"running": len(self.gateway.running)}
        for pool, view in self.gateway.views().items():
            counts[f"{pool} queued"] = sum(view.queued.values())
            counts[f"{pool} in flight"] = sum(view.in_flight.values())
            counts[f"{pool} on replicas"] = sum(view.replica_in_flight.values())
        if isinstance(self.transport, ScriptedTransport):
            counts["open attempts"] = self.transport.open_attempts
        return {name: count for name, count in counts.items() if count}

    def _keep(self, event: Event) -> bool:
        self.events.append(event)
        if isinstance(event, CallEnded):
            self.records.append(event.record)
            self.active.close([event.record.call_id])
        return True

    def _first_snapshot(
        self, tenants: tuple[TenantValue, ...], replicas: tuple[ReplicaValue, ...]
    ) -> Snapshot:
        pool = PoolValue(
            slug=POOL,
            replicas=replicas,
            routing="least_inflight",
            prices=Prices(1_000_000, 100_000, 2_000_000),
            context_tokens=32_768,
            endpoints=frozenset({"chat/completions", "completions"}),
            capabilities=frozenset(),
            ttft_objective_s=None,
            tpot_objective_s=None,
        )
        keys = [self._key(each.slug) for each in tenants]
        return Snapshot(
            version=1,
            loaded_at=self.clock.wall(),
            tenants={each.slug: each for each in tenants},
            keys={key.key_id: key for key in keys},
            pools={POOL: pool},
            aliases={MODEL: AliasValue(MODEL, POOL, "upstream-model", created_at=CREATED_AT)},
            parameters={},
        )

    def _key(self, slug: str) -> KeyValue:
        secret, key_id = key_format.generate()
        self.secrets[slug] = secret
        return KeyValue(
            key_id=key_id,
            tenant=slug,
            digest=key_format.digest(secret, PEPPER),
            scopes=SCOPES,
            models=None,
            highest_class=PriorityClass.INTERACTIVE,
            default_class=PriorityClass.STANDARD,
            expires_at=None,
            enabled=True,
            limits=(),
            allowed_networks=(),
        )


def chat(content: str = "hello", **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": content}]
    return {"model": MODEL, "messages": messages, **fields}


def limit(meter: str, amount: float, **fields: Any) -> Limit:
    return Limit(meter, amount, **fields)


def _request(body: dict[str, Any] | bytes | None) -> dict[str, Any]:
    raw = body if isinstance(body, bytes) else json.dumps(chat() if body is None else body).encode()
    return {"type": "http.request", "body": raw, "more_body": False}
