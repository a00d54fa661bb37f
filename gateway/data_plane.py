"""Which inference request is this? The raw ASGI application of ``/v1``, beside Django's handler.

Routes by exact path, answers what needs no call (the list of models, unknown paths, wrong methods),
and hands everything else to the pipeline. What is refused here has a record like any other call.
The outermost place where a bug is caught: it is logged with the call id and told as ``internal``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from gateway.auth import Principal, check_permitted
from gateway.core.clock import Clock
from gateway.core.errors import CallError, Rejected
from gateway.core.events import CallEnded
from gateway.core.reasons import Reason
from gateway.pipeline.call import Call, new_call_id
from gateway.pipeline.call_clock import CallClock
from gateway.pipeline.call_record import record_of
from gateway.pipeline.caller import Receive, Send, caller_of, done
from gateway.pipeline.classify import usable_models
from gateway.pipeline.incoming import Incoming
from gateway.pipeline.life import INFERENCE, Pipeline
from gateway.pipeline.reply import Reply
from gateway.pipeline.telling import answer_headers, tell
from gateway.pipeline.token_counting import COUNTED, TokenCounting
from gateway.snapshot.values import Snapshot
from gateway.wire import DIALECTS
from gateway.wire.api_styles import ANTHROPIC, ApiStyle, style_of
from gateway.wire.headers import decoded, request_id
from gateway.wire.models import ListedModel, model_body, models_body

log = structlog.get_logger(__name__)

Scope = dict[str, Any]

MODELS = "/v1/models"
ENDPOINT_CHARACTERS = 100  # of a path that nobody serves; those that are served are shorter
UNASKED = {Reason.ENDPOINT_NOT_SERVED, Reason.METHOD_NOT_ALLOWED, Reason.DRAINING}  # for no key
PLAIN = DIALECTS["/v1/chat/completions"]
MESSAGES = DIALECTS["/v1/messages"]


class DataPlane:
    def __init__(
        self,
        pipeline: Pipeline,
        token_counting: TokenCounting,
        clock: Clock,
        loop_lag_s: Callable[[], float],
    ) -> None:
        self._pipeline = pipeline
        self._token_counting = token_counting
        self._clock = clock
        self._loop_lag_s = loop_lag_s
        self.draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        headers = decoded(scope["headers"])
        style = style_of(path, headers)
        dialect = DIALECTS.get(path)
        if dialect is None:  # then the one in which its errors are told
            dialect = MESSAGES if style is ANTHROPIC else PLAIN
        client = scope.get("client") or ("", 0)
        caller = caller_of(scope, receive, send)
        incoming = Incoming(dialect, headers, client[0], caller)
        call = self._arrived(headers, path, style)
        reply = Reply(caller, self._clock)
        try:
            await self._answering(scope["method"], path, call, incoming, reply)
        except CallError as error:
            await self._refuse(error, call, incoming, reply)
        except Exception:
            log.exception("call_failed", call_id=call.call_id)
            await tell(CallError(Reason.INTERNAL), call, dialect, reply)

    async def _refuse(self, error: CallError, call: Call, incoming: Incoming, reply: Reply) -> None:
        call.ended_by(error)
        if error.reason in UNASKED:
            call.principal = self._known_caller(incoming)
        try:
            await tell(error, call, incoming.dialect, reply)
        finally:
            call.clock.end_s = call.clock.now()
            self._pipeline.bus.publish(CallEnded(record_of(call)))

    def _known_caller(self, incoming: Incoming) -> Principal | None:
        """Of an answer that is the same for everybody, so that it is found by whose it is."""
        snapshot = self._pipeline.snapshot()
        try:
            return self._pipeline.authenticator.identified(
                incoming.headers, snapshot, peer=incoming.peer
            )
        except Rejected:
            return None

    def _arrived(self, headers: Mapping[str, str], path: str, style: ApiStyle) -> Call:
        call_id = new_call_id()
        clock = CallClock(self._clock, self._clock.monotonic())
        endpoint = path.removeprefix("/v1/")[:ENDPOINT_CHARACTERS]
        return Call(
            call_id,
            endpoint,
            clock,
            self._clock.wall(),
            request_id(headers, call_id),
            style,
            loop_lag_s=self._loop_lag_s(),
        )

    def _answering(
        self, method: str, path: str, call: Call, incoming: Incoming, reply: Reply
    ) -> Awaitable[None]:
        """To be awaited. Raises Rejected at once."""
        if path in DIALECTS:
            _only(method, "POST")
            if self.draining:
                raise Rejected(Reason.DRAINING, retry_after_s=1.0)
            serving = self._token_counting if call.endpoint in COUNTED else self._pipeline
            return serving.serve(call, incoming, reply)
        if path == MODELS or path.startswith(MODELS + "/"):
            _only(method, "GET")
            body = self._models(path.removeprefix(MODELS).removeprefix("/"), call, incoming)
            return done(reply.answer(200, answer_headers(call), body))
        raise Rejected(Reason.ENDPOINT_NOT_SERVED)

    def _models(self, name: str, call: Call, incoming: Incoming) -> bytes:
        """Only what the key may use; one that it may not use does not exist for it."""
        snapshot = self._pipeline.snapshot()
        call.principal = self._pipeline.authenticator.identified(
            incoming.headers, snapshot, peer=incoming.peer
        )
        check_permitted(call.principal, scope=INFERENCE, peer=incoming.peer)
        models = usable_models(call.principal, snapshot)
        anthropic = "anthropic-version" in incoming.headers
        if not name:
            listed = [_listed(model, snapshot) for model in models]
            return models_body(listed, anthropic=anthropic)
        if name not in models:
            raise Rejected(Reason.MODEL_NOT_FOUND, f"The model {name[:100]!r} does not exist.")
        return model_body(_listed(name, snapshot), anthropic=anthropic)


def _listed(name: str, snapshot: Snapshot) -> ListedModel:
    return ListedModel(name, int(snapshot.aliases[name].created_at))


def _only(method: str, allowed: str) -> None:
    if method != allowed:
        raise Rejected(Reason.METHOD_NOT_ALLOWED, f"Use {allowed}.")
