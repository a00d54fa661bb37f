"""May this replica be given calls, and how many at once?

Two kinds of evidence, two kinds of absence. *Probes* ask whether the server answers at all; when
they fail the replica is *down*. *Calls* tell whether it does its work; when they fail while probes
pass, it is *ejected* for a time. It comes back through a trial.

  state      calls            leaves by
  serving    its slots        down, ejected
  down       none             2 successful probes in a row -> half_open
  ejected    none             10 s * 2^n, at most 300 s, is over -> half_open; probes fail -> down
  half_open  1                a call succeeds -> starting; two calls fail -> ejected; probes fail ->
             down
  starting   4, +1 a success  all its slots -> serving; calls fail -> ejected; probes fail -> down

Evidence
  * A refused or reset connection of a call starts a probe at once; if that and another 200 ms later
    fail, the replica is down. Otherwise two failed probes in a row, 5 s apart, are needed. Until
    the probe has answered, at most 1 s, it gets no new calls: failing fast, it would look idle and
    draw every call of its pool.
  * A probe that is refused always counts. One that is merely late (3 s) does not while streams of
    this replica make progress: a busy server may miss a probe.
  * Calls fail by a 5xx or a timeout before their first token, 5 in a row without a success between,
    2 in half_open. A request that no server can answer fails too, and no tenant may take replicas
    away from the others with such requests. So a failure is evidence when the same call then
    succeeded on another replica (``outdone``), or when several callers have one: of the 5 at most 3
    are of one caller, of the 2 one. The only caller of a pool is believed, for 10 s at a time.
  * A stall (calls in flight of several callers, or of the only one, no token for long) decides at
    once. Of one caller among others it is a failed call.
  * The caller's errors (4xx) and the caller's own deadline are no evidence and are not reported
    here.
  * 429 and 503 of the replica mean *full*: no new calls for 1 to 2 s. It stays what it is.

n counts ejections since the replica last served with all its slots. Ejection needs the consent of
the pool (``may_eject``): at most half of a pool and never the last replica that admits calls. Being
down needs none: a server that refuses connections serves nobody.

Invariants: time alone moves it only from ejected to half_open; a replica that is down or ejected
admits nothing; the slots of one that starts never fall.
Units: monotonic seconds. It sends no probe itself: the owner probes when ``next_probe_s`` has come,
with a timeout of ``PROBE_TIMEOUT_S``, and reports the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import StrEnum

from gateway.core.dispatch.effects import ReplicaHealth

PROBE_INTERVAL_S = 5.0
PROBE_TIMEOUT_S = 3.0
RETURN_INTERVAL_S = 3.5  # between the two that bring it back: within 10 s, late timers included
SUSPECT_INTERVAL_S = 0.2
SUSPECT_HOLD_S = 1.0
PROBES_TO_FAIL = 2
PROBES_TO_RETURN = 2
CALLS_TO_EJECT, OF_ONE_CALLER = 5, 3
TRIALS_TO_EJECT, TRIALS_OF_ONE = 2, 1
EJECT_FIRST_S = 10.0
EJECT_LONGEST_S = 300.0
START_SLOTS = 4
FULL_S = (1.0, 2.0)


class HealthState(StrEnum):
    SERVING = "serving"
    STARTING = "starting"
    HALF_OPEN = "half_open"
    DOWN = "down"
    EJECTED = "ejected"


_ABSENT = (HealthState.DOWN, HealthState.EJECTED)


class ReplicaHealthMachine:
    """``slots``: those of its configuration. ``may_eject``: asked at the moment of an ejection."""

    def __init__(
        self, slug: str, slots: int, may_eject: Callable[[], bool], *, now_s: float
    ) -> None:
        self.state = HealthState.SERVING
        self.why = ""
        self.next_probe_s = now_s
        self._slug = slug
        self._slots = slots
        self._may_eject = may_eject
        self._suspect = True  # nothing is known: two failures 200 ms apart decide
        self._probes_failed = 0
        self._probes_passed = 0
        self._forget_failures()
        self._ejections = 0
        self._ejected_until_s = now_s
        self._full_until_s = now_s
        self._held_until_s = now_s
        self._progress_s: float | None = None
        self._cap = slots

    # What it says

    @property
    def admits(self) -> bool:
        return self.state not in _ABSENT

    def health(self, now_s: float) -> ReplicaHealth:
        """For the dispatcher. A full replica, and one in doubt, admit later: cap 0 lets calls wait
        for it."""
        self.tick(now_s)
        if now_s < self._closed_until_s:
            return ReplicaHealth(self._slug, self.admits, 0)
        if self.state is HealthState.HALF_OPEN:
            return ReplicaHealth(self._slug, True, 1)
        cap = self._cap if self.state is HealthState.STARTING else None
        return ReplicaHealth(self._slug, self.admits, cap)

    def next_wake_s(self, now_s: float) -> float:
        """When to probe or to ask for ``health`` again, whichever comes first."""
        self.tick(now_s)
        times = [self.next_probe_s]
        if self.state is HealthState.EJECTED:
            times.append(self._ejected_until_s)
        if now_s < self._closed_until_s:
            times.append(self._closed_until_s)
        return min(times)

    def tick(self, now_s: float) -> None:
        if self.state is HealthState.EJECTED and now_s >= self._ejected_until_s:
            self._enter(HealthState.HALF_OPEN, "its ejection is over")

    def set_slots(self, slots: int) -> None:
        self._slots = slots
        if self.state is HealthState.SERVING:
            self._cap = slots

    # Evidence of probes

    def probe_passed(self, now_s: float) -> None:
        self.tick(now_s)
        self._suspect = False
        self._held_until_s = now_s
        self._probes_failed = 0
        self._probes_passed += 1
        self.next_probe_s = now_s + PROBE_INTERVAL_S
        if self.state is not HealthState.DOWN:
            return
        if self._probes_passed < PROBES_TO_RETURN:
            self.next_probe_s = now_s + RETURN_INTERVAL_S
        else:
            self._enter(HealthState.HALF_OPEN, f"{PROBES_TO_RETURN} probes passed")

    def probe_failed(self, now_s: float, *, refused: bool) -> None:
        """``refused``: refused or reset, as opposed to late or answered with an error."""
        self.tick(now_s)
        self._probes_passed = 0
        self.next_probe_s = now_s + (SUSPECT_INTERVAL_S if self._suspect else PROBE_INTERVAL_S)
        if self.state is HealthState.DOWN:
            self.next_probe_s = now_s + PROBE_INTERVAL_S
            return
        if not refused and self._progresses(now_s):
            return
        self._probes_failed += 1
        if self._probes_failed >= PROBES_TO_FAIL:
            self._enter(HealthState.DOWN, "refuses connections" if refused else "fails its probes")
            self.next_probe_s = now_s + PROBE_INTERVAL_S

    def probe_not_sent(self, now_s: float) -> None:
        """For a reason that lies here, such as no file left: nothing is known of the replica."""
        self.tick(now_s)
        self.next_probe_s = now_s + PROBE_INTERVAL_S

    def connection_failed(self, now_s: float) -> None:
        """A call could not connect, or its connection was reset."""
        self.tick(now_s)
        self._held_until_s = now_s + SUSPECT_HOLD_S
        if not self._suspect and self.state is not HealthState.DOWN:
            self._suspect = True
            self._probes_failed = 0
            self.next_probe_s = now_s

    # Evidence of calls

    def call_succeeded(self, now_s: float) -> None:
        """Once per call, at its first token."""
        self.tick(now_s)
        self.progress(now_s)
        self._forget_failures()
        if self.state is HealthState.HALF_OPEN:
            self._cap = min(START_SLOTS, self._slots)
            self._enter(HealthState.STARTING, "the trial call succeeded")
        elif self.state is HealthState.STARTING:
            self._cap += 1
        if self.state is HealthState.STARTING and self._cap >= self._slots:
            self._ejections = 0
            self._enter(HealthState.SERVING, "all slots are open")

    def call_failed(self, now_s: float, caller: str = "", *, others: bool = False) -> None:
        """A 5xx other than 503, or a timeout, before the first token. ``others``: use the pool."""
        self.tick(now_s)
        self._failed[caller] += 1
        needed, of_one = self._needed
        alone = not others and len(self._failed) == 1
        counted = sum(min(failed, needed if alone else of_one) for failed in self._failed.values())
        if counted >= needed:
            self._eject(now_s, f"{self._failed.total()} calls in a row failed", again=not alone)

    def outdone(self, now_s: float) -> None:
        """A call that failed here has succeeded on another replica."""
        self.tick(now_s)
        self._outdone += 1
        if self._outdone >= self._needed[0]:
            self._eject(now_s, f"{self._outdone} calls that failed here succeeded elsewhere")

    def stalled(self, now_s: float) -> None:
        """Calls are in flight and none receives tokens."""
        self.tick(now_s)
        self._eject(now_s, "no tokens for its calls in flight")

    def progress(self, now_s: float) -> None:
        """A token of any stream. Cheap: called for every chunk."""
        self._progress_s = now_s
        if not self._suspect:
            self._probes_failed = 0

    def full(self, now_s: float, retry_after_s: float | None = None) -> None:
        """429 or 503, with what the replica said about waiting."""
        shortest_s, longest_s = FULL_S
        wait_s = min(max(retry_after_s or shortest_s, shortest_s), longest_s)
        self._full_until_s = max(self._full_until_s, now_s + wait_s)

    @property
    def _needed(self) -> tuple[int, int]:
        """Failures that decide, and how many of them may be of one caller among others."""
        if self.state is HealthState.HALF_OPEN:
            return TRIALS_TO_EJECT, TRIALS_OF_ONE
        return CALLS_TO_EJECT, OF_ONE_CALLER

    def _forget_failures(self) -> None:
        self._failed: Counter[str] = Counter()  # in a row, by caller
        self._outdone = 0

    # Transitions

    @property
    def _closed_until_s(self) -> float:
        return max(self._full_until_s, self._held_until_s)

    def _progresses(self, now_s: float) -> bool:
        return self._progress_s is not None and now_s - self._progress_s <= PROBE_INTERVAL_S

    def _eject(self, now_s: float, why: str, *, again: bool = True) -> None:
        """``again``: longer than the last time."""
        if self.state in _ABSENT:
            return
        self._forget_failures()
        if not self._may_eject():
            return
        back_off_s = EJECT_FIRST_S * 2.0 ** min(self._ejections if again else 0, 10)
        self._ejected_until_s = now_s + min(EJECT_LONGEST_S, back_off_s)
        self._ejections += again
        self._enter(HealthState.EJECTED, why)

    def _enter(self, state: HealthState, why: str) -> None:
        self.state = state
        self.why = why
        self._suspect = False
        self._held_until_s = float("-inf")
        self._probes_failed = 0
        self._probes_passed = 0
        self._forget_failures()
