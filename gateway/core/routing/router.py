"""Where does this call run? Asks the pool's policy, and remembers what it decides by.

The router owns what routing has learned of the replicas of one pool: which prompts they hold, how
fast they read, which prefixes are hot. It is told of every dispatch, first event and end, and of
what happens to replicas; it changes no queue and no count of load.

  dispatched   the prompt is held there from now on (a burst follows its first call)
  first event  what waits behind it is the replica's next prompt; how long it took is compared
               with what is usual
  ended        predicted against reported cached tokens; a call that had much more to read than
               was known takes its word on slowness back; one that found nothing unstarted has
               measured the replica's rate; a slot that held the call is idle again
  restart      counters that fall, a replica that went down or was removed: its cache is empty

Invariant: a replica is in the index exactly while it is configured. Units: tokens, seconds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from gateway.core.caches.prefix_index import PrefixIndex
from gateway.core.dispatch.effects import (
    PoolConfig,
    ReplicaConfig,
    ReplicaTelemetry,
    Ticket,
    Usage,
)
from gateway.core.routing.hot_prefixes import HotPrefixes
from gateway.core.routing.policies import routing_policy
from gateway.core.routing.replica import Replica
from gateway.core.routing.scene import Knowledge, Pick, Scene, cached_tokens
from gateway.core.routing.slowness import Sample, Slowness

SHORT_TOKENS = 64  # so many more or less to read are not felt


class Placing(msgspec.Struct, frozen=True):
    """Where a call goes, and what was known of that. ``cached_tokens`` and ``uncached_tokens``: of
    its prompt, on that replica; ``best_cached_tokens``: on the best holder of the pool."""

    pick: Pick
    cached_tokens: int
    uncached_tokens: int
    best_cached_tokens: int
    mean_load_tokens: float | None = None  # where the policy went by a bound


class _Running(msgspec.Struct):
    """What is remembered of a call in flight."""

    ticket: Ticket
    predicted_tokens: int
    unread_tokens: int  # uncached ones of its prompt, and unstarted before it
    dispatched_s: float
    alone: bool  # nothing unstarted before it
    prefill_s: float  # as predicted
    started: bool = False
    ttft_s: float | None = None  # from dispatch to the first event
    sample: Sample | None = None  # of how slow its replica is


class Router:
    def __init__(self, config: PoolConfig, rng: random.Random) -> None:
        self.index = PrefixIndex(config.prefix_index_bytes)
        self._known = Knowledge(self.index, HotPrefixes(), rng, config.sticky_tokens)
        self._slowness = Slowness()
        self._running: dict[int, _Running] = {}
        self._read_tokens: dict[str, int] = {}  # by replica: its own counter, as last told
        self._configs: dict[str, ReplicaConfig] = {}
        self.configure(config)

    def configure(self, config: PoolConfig) -> None:
        """Raises ValueError for an unknown policy."""
        self._policy = routing_policy(config.routing)
        self._known = replace(self._known, sticky_tokens=config.sticky_tokens)
        wanted = {replica.slug: replica for replica in config.replicas}
        for slug, known in self._configs.items():
            changed = wanted.get(slug)
            if changed is None or changed.one_prefix_per_slot != known.one_prefix_per_slot:
                self.index.remove(slug)
                self._read_tokens.pop(slug, None)
        for slug, replica in wanted.items():
            self._hold(slug, replica)
        self._configs = wanted

    def choose(
        self,
        ticket: Ticket,
        open_replicas: Sequence[Replica],
        fleet: Callable[[], Sequence[Replica]],
        now_s: float,
    ) -> Placing:
        """``fleet``: those that admit the call, open or not. Changes nothing but what is known of
        hot prefixes."""
        chain, mean_load = ticket.prefix, None
        if now_s >= self._slowness.due_s:
            self._slowness.update(now_s)
        if len(open_replicas) == 1:
            pick = Pick(open_replicas[0], "only_open")
            blocks = self.index.matched(pick.replica.slug, chain) if chain.hashes else 0
        else:
            scene = Scene(ticket, open_replicas, fleet, self._known, now_s, self._backlog_s)
            pick = self._policy(scene)
            blocks = scene.matched_blocks(pick.replica)
            mean_load = None if pick.bound_tokens is None else scene.mean_load
        cached = best = cached_tokens(ticket, blocks) if blocks else 0
        if len(self._configs) > 1:  # where there is one replica, all prompts are held there
            if len(chain.hashes) > 1:
                self._known.hot.seen(chain.holder_key, ticket.input_tokens, now_s)
            if (most := self.index.best(chain, blocks)) > blocks:
                best = cached_tokens(ticket, most)
        return Placing(pick, cached, ticket.input_tokens - cached, best, mean_load)

    def dispatched(self, grant_id: int, placing: Placing, ticket: Ticket, now_s: float) -> None:
        """Before the replica counts the call."""
        replica = placing.pick.replica
        cached, uncached = placing.cached_tokens, placing.uncached_tokens
        alone = replica.unstarted == 0
        prefill_s = replica.peak.prefill_s(uncached, cached, self._known.fit)
        unread = uncached + replica.unstarted_prompt_tokens
        self._running[grant_id] = _Running(ticket, cached, unread, now_s, alone, prefill_s)
        if alone:
            replica.reading_since_s = now_s
        replica.unstarted_s += prefill_s
        answers = replica.in_flight_tokens - replica.in_flight_prompt_tokens
        room = replica.config.kv_tokens - answers  # KV memory that they leave for prompts
        self.index.insert(replica.slug, ticket.prefix, grant_id=grant_id, room_tokens=room)

    def first_event(self, grant_id: int, replica: Replica, now_s: float) -> None:
        call = self._running[grant_id]
        if call.started:
            return
        self._begun(call, replica)
        replica.reading_since_s = now_s
        call.ttft_s = ttft_s = now_s - call.dispatched_s
        call.sample = self._slowness.began(replica, call.ticket, call.unread_tokens, ttft_s)

    def ended(self, grant_id: int, replica: Replica, usage: Usage | None) -> None:
        call = self._running.pop(grant_id)
        if not call.started:
            self._begun(call, replica)
        holding = self.index.get(replica.slug)
        if self.index.in_slots:
            self.index.freed(replica.slug, grant_id)
        if usage is None:
            return
        if holding is not None:
            holding.watch.ended(call.predicted_tokens, usage.cached_tokens)
            if call.sample is not None:
                tells = holding.watch.reported_tokens > 0
                cached = usage.cached_tokens if tells else call.predicted_tokens
                if usage.input_tokens - cached > 2 * call.unread_tokens + SHORT_TOKENS:
                    self._slowness.mistaken(call.sample)
        if call.alone and call.ttft_s is not None:
            cached = min(usage.input_tokens, max(usage.cached_tokens, call.predicted_tokens))
            began_s = call.dispatched_s + call.ttft_s
            uncached = usage.input_tokens - cached
            sample = replica.peak.started(uncached, call.ttft_s, began_s, cached)
            if sample is not None:
                self._known.fit.learn(*sample)

    def hits(self) -> dict[str, tuple[int, int]]:
        """By replica: cached prompt tokens predicted and reported, since it is known."""
        holdings = ((slug, self.index.get(slug)) for slug in self._configs)
        return {
            slug: (holding.watch.predicted_tokens, holding.watch.reported_tokens)
            for slug, holding in holdings
            if holding is not None
        }

    def slow(self, now_s: float) -> dict[str, float]:
        """By replica that is slow compared with its peers: how many times longer it takes."""
        self._slowness.update(now_s)
        return dict(self._slowness.slow)

    def _begun(self, call: _Running, replica: Replica) -> None:
        call.started = True
        replica.unstarted_s = max(0.0, replica.unstarted_s - call.prefill_s)
        if not replica.unstarted:
            replica.unstarted_s = 0.0

    def _backlog_s(self, replica: Replica, now_s: float) -> float:
        first = replica.first_unstarted
        call = None if first is None else self._running.get(first)
        return 0.0 if call is None else replica.backlog_s(now_s, call.prefill_s)

    def sampled(self, sample: ReplicaTelemetry) -> None:
        """A counter that falls belongs to another process."""
        if sample.prompt_tokens is None:
            return
        if sample.prompt_tokens < self._read_tokens.get(sample.slug, 0):
            self.restarted(sample.slug)
        self._read_tokens[sample.slug] = sample.prompt_tokens

    def restarted(self, slug: str) -> None:
        """Whatever it held is gone, and how fast it is was said of another process."""
        self._slowness.forget(slug)
        if self.index.get(slug) is not None:
            self.index.forget(slug)

    def _hold(self, slug: str, replica: ReplicaConfig) -> None:
        holding = self.index.get(slug)
        slots = replica.slots if replica.one_prefix_per_slot else None
        if holding is None:
            self.index.add(slug, slots=slots)
        elif holding.slots is not None and slots is not None:
            holding.slots.resize(slots)
