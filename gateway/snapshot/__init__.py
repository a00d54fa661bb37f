"""The configuration as the hot path reads it: `SnapshotHolder.current`, one dict look-up away."""

from gateway.snapshot.holder import SnapshotHolder
from gateway.snapshot.values import AliasValue, PoolValue, ReplicaValue, Snapshot

__all__ = [
    "AliasValue",
    "PoolValue",
    "ReplicaValue",
    "Snapshot",
    "SnapshotHolder",
]
