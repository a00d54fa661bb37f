"""The buckets of a process as one file: a restart forgives at most what its last second held.

The file names the wall-clock time at which it was taken; what has drained while the process was
down is worked out from the wall clock, never below zero. LEVEL holds are left out: they died with
the process. Holds of rate buckets and budgets stay until their calls are settled or their lease
ends.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import msgspec

from gateway.core.limits.book import BucketBook, OpenCall
from gateway.core.limits.bucket import Bucket
from gateway.core.limits.demands import BucketKey, Kind

log = logging.getLogger(__name__)
SETTLED_KEPT_S = 30.0  # a call is settled and leaves the table of active calls within this time


class BucketImage(msgspec.Struct, array_like=True):
    key: BucketKey
    kind: Kind
    used: float
    capacity: float
    window_s: float
    forget_in_s: float


class BookImage(msgspec.Struct):
    taken_at: float  # Unix epoch
    buckets: list[BucketImage]
    open: dict[str, list[tuple[int, float]]]  # call id -> (place in buckets, amount)
    settled: list[str]


def take(book: BucketBook, *, now_s: float, wall_s: float) -> BookImage:
    """A copy that another thread may encode."""
    place = {key: number for number, key in enumerate(book.buckets)}
    buckets = [_bucket_image(key, bucket, now_s) for key, bucket in book.buckets.items()]
    calls = {
        call_id: [(place[key], amount) for key, amount in call.holds if key in place]
        for call_id, call in book.open.items()
    }
    settled = [name for name, at_s in book.settled.items() if now_s - at_s < SETTLED_KEPT_S]
    return BookImage(wall_s, buckets, calls, settled)


def restore(image: BookImage, book: BucketBook, *, now_s: float, wall_s: float) -> None:
    """Fills an empty book."""
    down_s = max(0.0, wall_s - image.taken_at)
    for saved in image.buckets:
        bucket = Bucket(saved.kind, now_s - down_s, saved.used, 0.0, saved.capacity, saved.window_s)
        bucket.forget_s = now_s - down_s + saved.forget_in_s
        bucket.drain(now_s)
        book.buckets[saved.key] = bucket
    for call_id, holds in image.open.items():
        _restore_call(book, call_id, [(image.buckets[n].key, a) for n, a in holds], now_s)
    book.settled.update(dict.fromkeys(image.settled, now_s))


def write(image: BookImage, path: Path) -> None:
    """Atomic: a reader sees the old file or the new one. Runs in a thread."""
    draft = path.with_suffix(".new")
    with draft.open("wb") as file:
        file.write(msgspec.msgpack.encode(image))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def read(path: Path) -> BookImage | None:
    """None: there is none, or none that can be read; budgets are then seeded from the ledger."""
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=BookImage)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        log.warning("quota snapshot %s is not readable, starting empty: %s", path.name, error)
        return None


def _bucket_image(key: BucketKey, bucket: Bucket, now_s: float) -> BucketImage:
    bucket.drain(now_s)
    return BucketImage(
        key, bucket.kind, bucket.used, bucket.capacity, bucket.window_s, bucket.forget_s - now_s
    )


def _restore_call(
    book: BucketBook, call_id: str, holds: list[tuple[BucketKey, float]], now_s: float
) -> None:
    kept = tuple((key, amount) for key, amount in holds if book.buckets[key].kind is not Kind.LEVEL)
    for key, amount in kept:
        if book.buckets[key].kind is Kind.BUDGET:
            book.buckets[key].held += amount
        else:
            book.buckets[key].reserved += amount
    book.open[call_id] = OpenCall(kept, now_s + book.lease_s)
