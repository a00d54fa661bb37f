"""Who goes next, and where? Gives out slots for as long as a replica is open and a call waits that
may run there.

The order of questions: which class (less what is held back), which flow (past tenants at their
share of the batch), which call of it (one whose prompt an open replica holds may go before its
turn), which replica. Every part hears of the grant before the next question is asked.

A call that comes while nothing waits leaves one question, which replica (``at_once``). All parts
hear of it as of any other, and decide later as if it had been queued for that moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import msgspec

from gateway.core.dispatch.conversations import Conversations
from gateway.core.dispatch.drain_rate import DrainRate
from gateway.core.dispatch.effects import Effect, Grant, PoolConfig, Ticket
from gateway.core.dispatch.lease import Lease, estimated_cost
from gateway.core.dispatch.running import RunningCalls
from gateway.core.dispatch.shedding import Shedding
from gateway.core.dispatch.start_rule import StartRule
from gateway.core.priority import PriorityClass
from gateway.core.queues.call import Charge, QueuedCall
from gateway.core.queues.class_order import Choice
from gateway.core.queues.locality import Liberty, Locality
from gateway.core.queues.waiting import WaitingCalls, lane_of
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
        waiting, free = self._pool.waiting, self._pool.roster.free
        while free and waiting.calls and (turn := self.decide(now_s)) is not None:
            of_class = waiting.load.by_class[turn.choice.call.ticket.klass].calls
            effects.append(self._grant(turn, waiting.dispatch(turn.choice), of_class, now_s))
        return effects

    def at_once(self, ticket: Ticket, now_s: float) -> Grant | None:
        """For a call that comes in time while nothing waits. None: it has to be queued, since no
        replica that may run it is open, its class is held back, or an exception of the class order
        may apply."""
        pool, klass = self._pool, ticket.klass
        lane = lane_of(ticket)
        candidates = pool.roster.candidates(lane)
        if not candidates or not pool.waiting.is_plain(klass):
            return None
        holdback = pool.running.holdback
        if klass is not PriorityClass.INTERACTIVE and klass in holdback.held(
            pool.waiting.load, now_s
        ):
            return None
        call = QueuedCall(ticket, lane, 0, now_s, ticket.deadline_s, estimated_cost(ticket))
        turn = self._placed(Choice(call, "strict"), Liberty.NONE, candidates, now_s)
        return self._grant(turn, pool.waiting.let_through(turn.choice), 1, now_s)

    def decide(self, now_s: float) -> Turn | None:
        """Whose turn is it, and where? None: nobody's. Counts nothing, but what is known of hot
        prefixes. A call waits, and a replica is open."""
        pool = self._pool
        free = pool.roster.free
        held = pool.running.holdback.held(pool.waiting.load, now_s)
        choice = pool.waiting.choose(free, now_s, held, self._is_at_share)
        if choice is None:
            return None
        liberty = Liberty.NONE
        if self._locality.look(free):
            self._locality.quantum_tokens = self._quantum_tokens(now_s)
            choice, liberty = pool.waiting.nearer(choice, self._locality)
        return self._placed(choice, liberty, pool.roster.candidates(choice.call.lane), now_s)

    def _placed(
        self, choice: Choice, liberty: Liberty, candidates: list[Replica], now_s: float
    ) -> Turn:
        """``candidates``: open replicas that may run it; those where its tenant is at its share of
        the batch are left out, unless it is at all of them."""
        call, share, roster = choice.call, self._pool.running.share, self._pool.roster
        if len(candidates) > 1 and share.applies_to(call):
            candidates = [
                each for each in candidates if not share.exceeds(each, call)
            ] or candidates
        placing = self._pool.router.choose(
            call.ticket, candidates, lambda: roster.admitted(call.lane), now_s
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

    def _grant(self, turn: Turn, charge: Charge, of_class: int, now_s: float) -> Grant:
        """``charge``: what its flow was charged; ``of_class``: calls of its class that waited,
        itself included."""
        pool, choice, placing = self._pool, turn.choice, turn.placing
        call, ticket = choice.call, choice.call.ticket
        replica, uncached = placing.pick.replica, placing.uncached_tokens
        spared = choice.rule == "batch_share"
        lease = Lease(
            ticket,
            call,
            replica,
            charge,
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
        waited_s = now_s - call.queued_s
        decision = self._decision(turn, charge, of_class, waited_s)
        return Grant(ticket.call_id, grant_id, replica.slug, waited_s, rule, decision)

    def _decision(self, turn: Turn, charge: Charge, of_class: int, waited_s: float) -> Decision:
        """What the router and the queue knew before either was told of the grant."""
        placing, pick = turn.placing, turn.placing.pick
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
            waited_s,
            turn.choice.rule,
            turn.liberty,
            charge.start_tag,
            charge.virtual_time,
            of_class,
        )

    def _tell(self, call: QueuedCall, now_s: float) -> None:
        hears, ticket = self._hears, call.ticket
        if hears.rate.saturated:
            hears.rate.dispatched(ticket.klass, call.cost, now_s)
        hears.shedding.dispatched(ticket.klass, now_s)
        if ticket.conversation:
            hears.conversations.served(ticket, now_s)

    def _is_at_share(self, call: QueuedCall) -> bool:
        """On every open replica that it may use, its tenant holds its share of the batch."""
        share = self._pool.running.share
        for replica in self._pool.roster.candidates(call.lane):
            if not share.exceeds(replica, call):
                return False  # most often at the first look
        return share.applies_to(call)
