"""An event loop whose time is computed, not waited for.

When nothing is ready, time jumps to the next timer. Sixty seconds of traffic run in the CPU time
that their callbacks need, in the same order on every run, and a deadline fires at its exact moment.

Rules
  * ``loop.time()`` starts at ``START_S`` and moves only when every task waits. ``VirtualClock``
    reads it, so that code which takes a clock lives on the same time.
  * Real I/O has no place here: a socket, pipe or subprocess that is registered with the loop raises
    ``RealIOUsed``. Use an in-process upstream.
  * Work for a thread (``asyncio.to_thread``, executors) runs at once, in the loop, in zero time.
  * When every task waits and no timer is armed, nothing can ever happen: ``Deadlock`` names the
    tasks.

Times are rounded to nanoseconds, so that sums of delays compare equal to decimals.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Executor
from typing import Any, TypeVar

import pytest

START_S = 1000.0
WALL_START_S = 1_764_000_000.0  # Unix epoch, UTC

T = TypeVar("T")


class RealIOUsed(RuntimeError):
    """Something would wait for the outside world."""


class Deadlock(RuntimeError):
    """Every task waits and no timer is armed."""


class _NoIOSelector(selectors.BaseSelector):
    """Selects nothing. It knows the loop's own wake-up pipe and refuses everything else."""

    def __init__(self, idle: Callable[[float | None], None]) -> None:
        self._idle = idle
        self._keys: dict[Any, selectors.SelectorKey] = {}
        self.sealed = False

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if self.sealed:
            raise RealIOUsed(f"{fileobj!r} was registered with the virtual loop")
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        return self._keys[fd]

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        return self._keys.pop(fd)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self._idle(timeout)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._now_s = START_S
        selector = _NoIOSelector(self._jump)
        super().__init__(selector)
        selector.sealed = True
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._now_s

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def _jump(self, delay_s: float | None) -> None:
        if delay_s is None:
            waiting = sorted(repr(task) for task in asyncio.all_tasks(self))
            raise Deadlock("nothing can ever happen; waiting:\n" + "\n".join(waiting))
        self._now_s = round(self._now_s + delay_s, 9)


class VirtualClock:
    """Implements ``gateway.core.clock.Clock`` on the time of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.wall_step_s = 0.0  # a test may let the wall clock jump

    def monotonic(self) -> float:
        return self._loop.time()

    def wall(self) -> float:
        return WALL_START_S + self._loop.time() - START_S + self.wall_step_s


class VirtualTime:
    """Runs one coroutine in virtual time; ``clock`` is the clock that it should be given."""

    def __init__(self) -> None:
        self.loop = VirtualTimeLoop()
        self.clock = VirtualClock(self.loop)

    @property
    def elapsed_s(self) -> float:
        return round(self.loop.time() - START_S, 9)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Ends the tasks that ``main`` leaves behind, as ``asyncio.run`` does."""
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            return runner.run(main)


@pytest.fixture
def virtual_time() -> Iterator[VirtualTime]:
    """Import into a conftest. ``virtual_time.run(scenario(virtual_time.clock))``."""
    time = VirtualTime()
    yield time
    time.loop.close()
