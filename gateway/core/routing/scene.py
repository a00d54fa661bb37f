"""What does a routing policy see of the moment in which it decides?

The call, the replicas that may run it now (*open*: they admit calls, are eligible, have not failed
this call, and may be given one more), what each holds of its prompt, and how loaded the pool is.
Load is what this gateway has granted and not got back, in tokens, cached prompt tokens not counted;
it is counted at the grant, so that a burst sees itself.

Everything is worked out when it is asked for, once: most decisions have one open replica and ask
for nothing. Units: tokens, blocks, seconds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from gateway.core.caches.prefix_index import PrefixIndex
from gateway.core.dispatch.effects import Ticket
from gateway.core.routing.decision import Candidate
from gateway.core.routing.hot_prefixes import HotPrefixes
from gateway.core.routing.peak_rate import PrefillFit
from gateway.core.routing.replica import Replica


class Pick(msgspec.Struct, frozen=True):
    """``considered``: for the explanation, the chosen one among them."""

    replica: Replica
    rule: str
    considered: tuple[Candidate, ...] = ()
    bound_tokens: float | None = None


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What a pool has learned, shared by its decisions."""

    index: PrefixIndex
    hot: HotPrefixes
    rng: random.Random
    sticky_tokens: int = 20_000
    fit: PrefillFit = field(default_factory=PrefillFit)  # of all replicas together


def cached_tokens(ticket: Ticket, blocks: int) -> int:
    """Of its prompt, where ``blocks`` of it are held. At least the last token is always
    computed."""
    if not blocks:
        return 0
    return max(0, min(int(blocks * ticket.prefix.block_tokens), ticket.input_tokens - 1))


class Scene:
    def __init__(
        self,
        ticket: Ticket,
        open_replicas: Sequence[Replica],
        fleet: Callable[[], Sequence[Replica]],
        known: Knowledge,
        now_s: float,
        backlog_s: Callable[[Replica, float], float] = lambda replica, now_s: 0.0,
    ) -> None:
        self.ticket = ticket
        self.chain = ticket.prefix
        self.holder_blocks = ticket.prefix.holder_blocks
        self.open = open_replicas
        self._ask_fleet = fleet
        self._fleet: Sequence[Replica] | None = None
        self.index = known.index
        self.hot = known.hot
        self.rng = known.rng
        self.known = known
        self.now_s = now_s
        self._backlog_s = backlog_s
        self._matched: dict[str, int] = {}
        self._loads: tuple[float, float] | None = None

    # The prompt

    def matched_blocks(self, replica: Replica) -> int:
        slug = replica.slug
        blocks = self._matched.get(slug)
        if blocks is None:
            blocks = self._matched[slug] = self.index.matched(slug, self.chain)
        return blocks

    def matched_tokens(self, replica: Replica) -> int:
        return cached_tokens(self.ticket, self.matched_blocks(replica))

    def uncached_tokens(self, replica: Replica) -> int:
        return self.ticket.input_tokens - self.matched_tokens(replica)

    def waiting_s(self, replica: Replica) -> float:
        """Until the prompts before this one are read."""
        return self._backlog_s(replica, self.now_s)

    def own_s(self, replica: Replica) -> float:
        """To read this one."""
        cached = self.matched_tokens(replica)
        uncached = self.ticket.input_tokens - cached
        return replica.peak.prefill_s(uncached, cached, self.known.fit)

    def own_tokens(self, replica: Replica) -> int:
        """What the call would add to the load."""
        return self.uncached_tokens(replica) + self.ticket.output_tokens

    @property
    def has_holders(self) -> bool:
        """The prompt is long enough to be held by anybody."""
        return self.holder_blocks <= len(self.chain)

    def holders(self) -> list[Replica]:
        """Open replicas that hold enough of the prompt."""
        if not self.has_holders:
            return []
        holding = set(self.index.holding(self.chain, self.holder_blocks))
        return [replica for replica in self.open if replica.slug in holding] if holding else []

    def copies(self) -> int:
        """Replicas that hold enough of the prompt, open or not."""
        return len(self.index.holding(self.chain, self.holder_blocks)) if self.has_holders else 0

    def copies_wanted(self) -> int:
        if not self.has_holders:
            return 1
        return self.hot.copies(self.chain.holder_key, len(self.fleet))

    # The load

    @property
    def fleet(self) -> Sequence[Replica]:
        """Those of the call's lane that admit calls, open or not."""
        if self._fleet is None:
            self._fleet = self._ask_fleet()
        return self._fleet

    @property
    def mean_load(self) -> float:
        return self._mean_loads()[0]

    @property
    def mean_call(self) -> float:
        """Size of a call in flight; of this one when none is."""
        return self._mean_loads()[1]

    def least_loaded(self, replicas: Sequence[Replica]) -> Replica:
        """Random ties."""
        return self.least(replicas, lambda replica: replica.in_flight_tokens)

    def least(self, replicas: Sequence[Replica], cost: Callable[[Replica], float]) -> Replica:
        """Random ties."""
        costs = [cost(replica) for replica in replicas]
        lowest = min(costs)
        ties = [replica for replica, each in zip(replicas, costs, strict=True) if each == lowest]
        return ties[0] if len(ties) == 1 else self.rng.choice(ties)

    def candidate(self, replica: Replica, cost: float | None = None) -> Candidate:
        return Candidate(replica.slug, replica.in_flight_tokens, self.matched_tokens(replica), cost)

    def _mean_loads(self) -> tuple[float, float]:
        if self._loads is None:
            tokens = sum([replica.in_flight_tokens for replica in self.fleet])
            calls = sum([replica.in_flight for replica in self.fleet])
            size = tokens / calls if calls else self.ticket.input_tokens + self.ticket.output_tokens
            self._loads = (tokens / max(1, len(self.fleet)), size)
        return self._loads
