"""Who goes next, and where? Gives out slots for as long as a replica is open and a call waits that
may run there.

The order of questions: which class (less what is held back), which flow (past tenants at their
share of the batch), which call of it (one whose prompt an open replica holds may go before its
turn), which replica. Every part hears of the grant before the next question is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import msgspec

from gateway.core.dispatch.conversations import Conversations
from gateway.core.dispatch.drain_rate import DrainRate
from gateway.core.dispatch.effects import Effect, Grant, PoolConfig
from gateway.core.dispatch.lease import Lease
from gateway.core.dispatch.running import RunningCalls
from gateway.core.dispatch.shedding import Shedding
from gateway.core.dispatch.start_rule import StartRule
from gateway.core.priority import PriorityClass
from gateway.core.queues.call import QueuedCall
from gateway.core.queues.class_order import Choice
from gateway.core.queues.locality import Liberty, Locality
from gateway.core.queues.waiting import WaitingCalls
from gateway.core.routing.decision import Decision
from gateway.core.routing.replica import Replica
from gateway.core.routing.roster import Roster
from gateway.core.routing.router import Placing, Router


@dataclass(frozen=True, slots=True)
class Pool:
    """The state of one pool."""

    waiting: WaitingCalls
    running: RunningCalls
    roster: Roster
    router: Router
    start: StartRule


class Turn(msgspec.Struct, frozen=True):
    """What was decided: which call goes, and to which replica. ``open_replicas``: that might have
    it."""

    choice: Choice
    liberty: Liberty
    placing: Placing
    open_replicas: int


@dataclass(frozen=True, slots=True)
class Hears:
    """Who must be told of each grant."""

    rate: DrainRate
    shedding: Shedding
    conversations: Conversations


class Placement:
    def __init__(self, config: PoolConfig, pool: Pool, hears: Hears) -> None:
        self._pool = pool
        self.configure(config)
        self._hears = hears
        self._grant_ids = count(1)

    def configure(self, config: PoolConfig) -> None:
        self.config = config
        self._locality = Locality(
            self._pool.router.index,
            config.look_ahead_calls,
            config.quantum_tokens,
            self._is_at_share,
        )

    def give_out(self, now_s: float) -> list[Effect]:
        effects = list[Effect]()
        while (turn := self.decide(now_s)) is not None:
            effects.append(self._grant(turn, now_s))
        return effects

    def decide(self, now_s: float) -> Turn | None:
        """Whose turn is it, and where? None: nobody's. Counts nothing, but what is known of hot
        prefixes."""
        pool = self._pool
        free = pool.roster.free
        if not free or not pool.waiting.calls:
            return None
        held = pool.running.holdback.held(pool.waiting.load, now_s)
        choice = pool.waiting.choose(free, now_s, held, self._is_at_share)
        if choice is None:
            return None
        liberty = Liberty.NONE
        if self._locality.look(free):
            self._locality.quantum_tokens = self._quantum_tokens(now_s)
            choice, liberty = pool.waiting.nearer(choice, self._locality)
        lane, candidates = choice.call.lane, self._open_to(choice.call)
        placing = pool.router.choose(
            choice.call.ticket, candidates, lambda: pool.roster.admitted(lane), now_s
        )
        return Turn(choice, liberty, placing, len(candidates))

    def _quantum_tokens(self, now_s: float) -> float:
        least = self.config.quantum_tokens
        if not least:
            return 0.0
        return max(least, self.config.quantum_s * (self._hears.rate.tps(now_s) or 0.0))

    def is_saturated(self, now_s: float) -> bool:
        """Calls wait, and no slot is free but those that are kept for interactive calls."""
        pool = self._pool
        if not pool.waiting.calls:
            return False
        return not pool.roster.free or pool.running.holdback.is_full(pool.waiting.load, now_s)

    def _grant(self, turn: Turn, now_s: float) -> Grant:
        pool, choice, placing = self._pool, turn.choice, turn.placing
        call, ticket = choice.call, choice.call.ticket
        decision = self._decision(turn, now_s)
        replica, uncached = placing.pick.replica, placing.uncached_tokens
        spared = choice.rule == "batch_share"
        lease = Lease(
            ticket,
            call,
            replica,
            pool.waiting.dispatch(choice),
            uncached,
            pool.waiting.charge_below(ticket, call.cost),
            now_s,
            replica.unstarted_prompt_tokens,
            spared,
            ticket.klass is PriorityClass.BATCH and not spared,
        )
        grant_id = next(self._grant_ids)
        pool.router.dispatched(grant_id, placing, ticket, now_s)
        opened_by = pool.start.opened_by(replica)
        replica.take(grant_id, uncached + ticket.output_tokens, uncached)
        pool.running.granted(grant_id, lease)
        pool.roster.refresh(replica)
        self._tell(call, now_s)
        rule = f"{choice.rule}/{self.config.queue}/{self.config.routing}/{opened_by}"
        if turn.liberty is not Liberty.NONE:
            rule += f"/{turn.liberty}"
        return Grant(ticket.call_id, grant_id, replica.slug, decision.waited_s, rule, decision)

    def _decision(self, turn: Turn, now_s: float) -> Decision:
        """What the router and what the queue knew, before either is told of the grant."""
        placing, pick, choice = turn.placing, turn.placing.pick, turn.choice
        ticket, waiting = choice.call.ticket, self._pool.waiting
        start_tag, virtual_time = waiting.queues[ticket.klass].tags_of(ticket.tenant) or (
            None,
            None,
        )
        return Decision(
            self.config.routing,
            pick.rule,
            pick.replica.slug,
            pick.considered,
            turn.open_replicas,
            placing.mean_load_tokens,
            pick.bound_tokens,
            placing.cached_tokens,
            placing.best_cached_tokens,
            now_s - choice.call.queued_s,
            choice.rule,
            turn.liberty,
            start_tag,
            virtual_time,
            waiting.load.by_class[ticket.klass].calls,
        )

    def _tell(self, call: QueuedCall, now_s: float) -> None:
        self._hears.rate.dispatched(call.ticket.klass, call.cost, now_s)
        self._hears.shedding.dispatched(call.ticket.klass, now_s)
        self._hears.conversations.served(call.ticket, now_s)

    def _is_at_share(self, call: QueuedCall) -> bool:
        """On every open replica that it may use, its tenant holds its share of the batch."""
        share = self._pool.running.share
        for replica in self._pool.roster.candidates(call.lane):
            if not share.exceeds(replica, call):
                return False  # most often at the first look
        return share.applies_to(call)

    def _open_to(self, call: QueuedCall) -> list[Replica]:
        candidates = self._pool.roster.candidates(call.lane)
        share = self._pool.running.share
        if len(candidates) == 1 or not share.applies_to(call):
            return candidates
        return [each for each in candidates if not share.exceeds(each, call)] or candidates
