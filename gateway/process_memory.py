"""How much of the memory that it may have does this process use? Linux; elsewhere nothing is known.

The limit is the least of: the setting, the memory limit of the control group that the process is
in and of the groups around it, and the machine's memory. Beside it the limit on address space
(RLIMIT_AS) counts against the address space used, without what the allocator holds free: freed
addresses stay with it, and it takes them first. The larger of the two shares is the answer.
"""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Iterator
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUP = Path("/proc/self/cgroup")
_STATM = Path("/proc/self/statm")
_LINE_BYTES = 256
_PAGE_BYTES = resource.getpagesize()


class ProcessMemory:
    """``limit_bytes`` 0: as found."""

    def __init__(self, limit_bytes: int = 0) -> None:
        found = [limit for limit in (limit_bytes, *_limits()) if limit > 0]
        self.limit_bytes = min(found, default=0)  # 0: none is known
        self._statm = os.open(_STATM, os.O_RDONLY) if _STATM.exists() else -1
        space_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
        self._space_bytes = max(0, space_bytes)  # RLIM_INFINITY is negative

    def used_ratio(self) -> float:
        try:
            space, resident, *_ = map(int, os.pread(self._statm, _LINE_BYTES, 0).split())
        except OSError:
            return 0.0
        return max(
            _share(resident * _PAGE_BYTES, self.limit_bytes),
            _share(space * _PAGE_BYTES - free_inside(), self._space_bytes)
            if self._space_bytes
            else 0.0,
        )


_ALLOCATED = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class _Allocated(ctypes.Structure):
    """``struct mallinfo2`` of glibc; bytes."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _ALLOCATED)


def free_inside() -> int:
    """Bytes that the allocator holds and nobody uses; 0 where it does not say."""
    told = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if told is None:
        return 0
    told.restype = _Allocated
    return int(told().fordblks)


def give_back() -> None:
    """Free memory that the allocator still holds goes back to the system. Tens of milliseconds:
    for a thread."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _share(used_bytes: int, limit_bytes: int) -> float:
    return used_bytes / limit_bytes if limit_bytes else 0.0


def _limits() -> Iterator[int]:
    """Those of the system. Version 1 of control groups says a number beyond any memory for none."""
    try:
        names = [line.split(":", 2) for line in _OWN_GROUP.read_text().splitlines()]
        total = next(line for line in Path("/proc/meminfo").read_text().splitlines())
        yield int(total.split()[1]) * 1024
    except (OSError, ValueError, StopIteration, IndexError):
        return
    for _, kinds, name in names:
        if kinds in ("", "memory"):
            root = _GROUPS / kinds
            group = root / name.strip("/")
            for each in (group, *group.parents):
                if each == root.parent:
                    break
                yield from _limit_of(each)


def _limit_of(group: Path) -> Iterator[int]:
    for name in ("memory.max", "memory.limit_in_bytes"):
        try:
            text = (group / name).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            yield int(text)
