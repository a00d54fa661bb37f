"""Which replica is slow, compared with its peers?

A count of tokens in flight sees a slow replica late and little: calls stay there longer, so it gets
fewer, but of three replicas one that takes three times as long still gets a call in seven. Here the
time itself is compared. For every first event:

  sample  log(time to the first event / what is usual in this pool for as many tokens to read)

Tokens to read: the uncached ones of the prompt and those that had not begun on the replica when the
call was dispatched. What is usual is the mean logarithm of their size class (a power of two), so
that a long prompt makes nobody look slow, whatever the engine's time is a function of. A replica's
samples are averaged, of each tenant about the last six, fading over twenty seconds, and compared
with the median of its peers, so that what befalls all of them (load, another model) cancels:

  ratio   exp((mean - median of the peers) * weight / (weight + 2))      1 = not known, no peers
  burden  1 while ratio < 1.5, else 1 + room * ((ratio / 1.25)^4 - 1), at most 16: what its load
          counts for. Room: 1 while the peers are at most half full, 0 from 0.8 on, by calls per
          slot and by tokens of prompts and answers per memory, the larger of both

So a slow replica is left a small part of the calls while the others have room, and works like any
other when they have none: near the knee two of eight at half speed are worth an eighth of the pool.
Few samples make the ratio small: without calls it goes back to 1 within half a minute, so the
replica is asked again, and the first answers tell. (At a call a second that is one of ten.)

Not at a tenant's will. The verdict is the mildest of those that leave one tenant out, unless that
one has the pool to itself: alone it has no say, whether it asks for images from slow hosts or for
grammars that take seconds. Bodies that are not mostly text are no samples. A call that had much
more to read than was known (its cached prefix was gone, its tokens were more) takes its sample back
when it ends. No sample is beyond ``MOST_LOG``. What a tenant can do is hide that a replica is slow,
by calls that look fast there; then load alone decides.

Bounded: ``MOST_TENANTS`` per replica, the lightest is forgotten. Ratios are worked out twice a
second, when a decision asks; a first event costs O(1). Units: seconds, tokens, weights in calls.
Numbers: simulated for this project. One of three replicas three times as slow, half of the slots
used: its share falls from 33 to 3 %, TTFT p95 of all calls rises 1.2 times (by load alone: 15 %,
2.6 times).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from gateway.core.dispatch.effects import Ticket
from gateway.core.routing.replica import Replica

EVERY_S = 0.5
MEMORY_S = 20.0
SLOW_RATIO = 1.5
FREE_RATIO = 1.25
MOST_BURDEN = 16.0
LATER = 0.83  # what a sample counts for after another one of its tenant: six calls at most
EASY_RATIO, FULL_RATIO = 0.5, 0.8  # of slots or memory of the peers
SIZE_GAIN = 0.02
DOUBT = 2.0  # calls' weight of the belief that a replica is like its peers
LEAST_PEER = 1.0  # weight from which a replica says what is normal
LEAST_OTHERS = 2.0  # weight in the pool from which a tenant is not alone there
MOST_LOG = 2.0
MOST_TENANTS = 8
FORGOTTEN = 0.05  # weight

LEAST_CLASS = 6  # 63 tokens and fewer are read in one step, whatever their number
CLASS_SAMPLES = 5  # before a class says what is usual
CLASS_GAIN = 0.02

_SLOW = log(SLOW_RATIO)
TEXT_BYTES, OVERHEAD_BYTES = 16, 4_096  # per token, and of a body beside its text


@dataclass(slots=True)
class _Voice:
    """What one tenant's calls say of one replica."""

    weight: float = 0.0
    total: float = 0.0  # of the samples
    samples: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    replica: Replica
    tenant: str
    value: float
    number: int  # of its voice
    as_of_s: float


class Slowness:
    """Of one pool. Writes ``slow_ratio`` and ``burden`` of its replicas. ``slow``: those that count
    as slow, whether or not their peers have room."""

    def __init__(self) -> None:
        self.due_s = 0.0
        self.slow: dict[str, float] = {}  # by replica: ratio
        self._as_of_s = 0.0
        self._usual: dict[int, tuple[int, float]] = {}  # size class -> (samples, mean)
        self._size = 0.0  # mean tokens of a call, cached ones and the answer too
        self._voices: dict[Replica, dict[str, _Voice]] = {}

    def began(self, replica: Replica, ticket: Ticket, tokens: int, ttft_s: float) -> Sample | None:
        """First event of a call with ``tokens`` to read. None: it says nothing."""
        if ttft_s <= 0 or ticket.body_bytes > TEXT_BYTES * ticket.input_tokens + OVERHEAD_BYTES:
            return None
        self._size += SIZE_GAIN * (ticket.input_tokens + ticket.output_tokens - self._size)
        time, size = log(ttft_s), max(LEAST_CLASS, tokens.bit_length())
        samples, usual = self._usual.get(size, (0, 0.0))
        gain = max(CLASS_GAIN, 1 / (samples + 1))
        self._usual[size] = samples + 1, usual + gain * (time - usual)
        if samples < CLASS_SAMPLES:
            return None
        value = max(-MOST_LOG, min(MOST_LOG, time - usual))
        voice = self._voice(replica, ticket.tenant)
        voice.weight = 1.0 + LATER * voice.weight
        voice.total = value + LATER * voice.total
        voice.samples += 1
        return Sample(replica, ticket.tenant, value, voice.samples, self._as_of_s)

    def mistaken(self, sample: Sample) -> None:
        """What was expected of its call was wrong."""
        voice = self._voices.get(sample.replica, {}).get(sample.tenant)
        if voice is not None and voice.samples >= sample.number:
            left = LATER ** (voice.samples - sample.number)
            left *= exp((sample.as_of_s - self._as_of_s) / MEMORY_S)
            voice.weight = max(0.0, voice.weight - left)
            voice.total -= left * sample.value

    def forget(self, slug: str) -> None:
        """Another process answers there."""
        self.slow.pop(slug, None)
        for replica in [each for each in self._voices if each.slug == slug]:
            del self._voices[replica]
            replica.slow_ratio = replica.burden = 1.0

    def update(self, now_s: float) -> None:
        """When ``due_s`` has come, before a decision."""
        fade = exp((self._as_of_s - now_s) / MEMORY_S)
        self._as_of_s, self.due_s = now_s, now_s + EVERY_S
        means: dict[Replica, float] = {}
        in_pool: dict[str, float] = {}
        for replica, voices in list(self._voices.items()):
            weight = total = 0.0
            for tenant, voice in list(voices.items()):
                voice.weight *= fade
                voice.total *= fade
                if voice.weight < FORGOTTEN:
                    del voices[tenant]
                    continue
                weight += voice.weight
                total += voice.total
                in_pool[tenant] = in_pool.get(tenant, 0.0) + voice.weight
            if weight >= LEAST_PEER:
                means[replica] = total / weight
        most = sum(in_pool.values()) - LEAST_OTHERS
        self._judge(means, {tenant for tenant, each in in_pool.items() if each > most})

    def _judge(self, means: dict[Replica, float], alone: set[str]) -> None:
        ordered = sorted(means.values())
        self.slow.clear()
        slow: list[Replica] = []
        for replica, voices in list(self._voices.items()):
            replica.slow_ratio = replica.burden = 1.0
            normal = _median_of_others(ordered, means.get(replica))
            if not voices:
                del self._voices[replica]
            elif normal is not None:
                ratio = exp(_verdict(voices, normal, alone))
                if ratio >= SLOW_RATIO:
                    self.slow[replica.slug] = replica.slow_ratio = ratio
                    slow.append(replica)
        if slow:
            room = self._room([each for each in means if each.slug not in self.slow])
            for replica in slow:
                full = min(MOST_BURDEN, (replica.slow_ratio / FREE_RATIO) ** 4)
                replica.burden = 1.0 + (full - 1.0) * room

    def _room(self, peers: Sequence[Replica]) -> float:
        """1 while these are at most half full, 0 when nothing more fits."""
        if not peers:
            return 0.0
        fullness = [
            each.in_flight * max(1 / max(1, each.slots), self._size / each.config.kv_tokens)
            for each in peers
        ]
        mean = sum(fullness) / len(peers)
        return max(0.0, min(1.0, (FULL_RATIO - mean) / (FULL_RATIO - EASY_RATIO)))

    def _voice(self, replica: Replica, tenant: str) -> _Voice:
        voices = self._voices.setdefault(replica, {})
        voice = voices.get(tenant)
        if voice is None:
            if len(voices) >= MOST_TENANTS:
                del voices[min(voices, key=lambda each: voices[each].weight)]
            voice = voices[tenant] = _Voice()
        return voice


def _verdict(voices: dict[str, _Voice], normal: float, alone: set[str]) -> float:
    """The logarithm of the ratio: the least of those that leave one tenant out, but for tenants
    that are ``alone`` in the pool."""
    weight = sum([voice.weight for voice in voices.values()])
    excess = sum([voice.total for voice in voices.values()]) - normal * weight
    verdict = excess / (weight + DOUBT)
    if verdict < _SLOW:
        return verdict
    without = [
        (excess - voice.total + normal * voice.weight) / (weight - voice.weight + DOUBT)
        for tenant, voice in voices.items()
        if tenant not in alone
    ]
    return min(verdict, *without) if without else verdict


def _median_of_others(ordered: Sequence[float], own: float | None) -> float | None:
    """``own`` is one of them, or None. None: there are no others."""
    others = len(ordered) - (own is not None)
    if not others:
        return None
    skipped = len(ordered) if own is None else bisect_left(ordered, own)
    low, high = (others - 1) // 2, others // 2
    return (ordered[low + (low >= skipped)] + ordered[high + (high >= skipped)]) / 2
