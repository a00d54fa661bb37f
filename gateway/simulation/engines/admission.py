"""Which request does an engine take into its batch next, when the engine itself schedules?

The schedulers of the OSDI'24 comparison, inside the engine: the gateway's rules are measured
against them. A scheduler keeps the engine's queue; the engine asks for the head, stops at the first
one that does not fit, and reports every admission and decode step.

  fcfs    first come, first served
  lcf     least counter first: the client that has received least; no lift
  vtc     virtual token counter: like lcf, but a client whose queue was empty is lifted to the least
          counter among the clients that wait
  oracle  vtc that charges the true output at admission

Charges: 1 per input token at admission, 2 per running request and decode step, divided by the
client's weight. Unit: service tokens. Source: Sheng et al., "Fairness in Serving Large Language
Models" (OSDI'24), algorithm 2, and what its artifact does (the lift looks at queued clients only;
the token that a prefill emits is not charged).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Protocol

from gateway.simulation.engine import EngineRequest

INPUT_PRICE = 1.0
OUTPUT_PRICE = 2.0


class Scheduler(Protocol):
    def __len__(self) -> int:
        """Requests that wait."""
        ...

    def push(self, request: EngineRequest) -> None: ...

    def head(self) -> EngineRequest | None: ...

    def admit(self, request: EngineRequest) -> None:
        """The head enters the batch."""
        ...

    def discard(self, request_id: str) -> None: ...

    def decoding(self, running: Mapping[str, int]) -> None:
        """A decode step starts; ``running``: requests in the batch per client."""
        ...


class FirstCome:
    def __init__(self, weights: Mapping[str, float]) -> None:
        self._queue: OrderedDict[str, EngineRequest] = OrderedDict()

    def __len__(self) -> int:
        return len(self._queue)

    def push(self, request: EngineRequest) -> None:
        self._queue[request.request_id] = request

    def head(self) -> EngineRequest | None:
        return next(iter(self._queue.values()), None)

    def admit(self, request: EngineRequest) -> None:
        del self._queue[request.request_id]

    def discard(self, request_id: str) -> None:
        self._queue.pop(request_id, None)

    def decoding(self, running: Mapping[str, int]) -> None:
        """What was served does not matter."""


class LeastCounter:
    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        self._counters: dict[str, float] = {}
        self._queues: dict[str, deque[EngineRequest]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def push(self, request: EngineRequest) -> None:
        client = request.client
        queue = self._queues.setdefault(client, deque())
        self._counters.setdefault(client, 0.0)
        if not queue:
            self._lift(client)
        queue.append(request)

    def head(self) -> EngineRequest | None:
        waiting = [client for client, queue in self._queues.items() if queue]
        if not waiting:
            return None
        return self._queues[min(waiting, key=self._counters.__getitem__)][0]

    def admit(self, request: EngineRequest) -> None:
        self._queues[request.client].popleft()
        self._charge(request.client, self._admission_cost(request))

    def discard(self, request_id: str) -> None:
        for queue in self._queues.values():
            for request in queue:
                if request.request_id == request_id:
                    queue.remove(request)
                    return

    def decoding(self, running: Mapping[str, int]) -> None:
        for client, requests in running.items():
            self._charge(client, OUTPUT_PRICE * requests)

    def _charge(self, client: str, cost: float) -> None:
        self._counters[client] += cost / self._weights.get(client, 1.0)

    def _admission_cost(self, request: EngineRequest) -> float:
        return INPUT_PRICE * request.prompt_tokens

    def _lift(self, client: str) -> None:
        """Whoever was away catches up: that is what the lift of the next one prevents."""


class VirtualTokenCounter(LeastCounter):
    def _lift(self, client: str) -> None:
        waiting = [self._counters[other] for other, queue in self._queues.items() if queue]
        if waiting:
            self._counters[client] = max(self._counters[client], min(waiting))


class LengthOracle(VirtualTokenCounter):
    def _admission_cost(self, request: EngineRequest) -> float:
        return INPUT_PRICE * request.prompt_tokens + OUTPUT_PRICE * request.output_tokens

    def decoding(self, running: Mapping[str, int]) -> None:
        """Charged at admission."""


SCHEDULERS: dict[str, Callable[[Mapping[str, float]], Scheduler]] = {
    "fcfs": FirstCome,
    "lcf": LeastCounter,
    "vtc": VirtualTokenCounter,
    "oracle": LengthOracle,
}
