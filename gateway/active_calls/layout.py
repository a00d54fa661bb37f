"""How does one call lie in the mapped table? Fixed fields that change, then text that does not.

A slot: taken (1 byte), phase (1), text length (2), checksum of the text (4), arrival as Unix
epoch (8), tokens received (4), prompt tokens (4), cached tokens (4), replica (64), then the
text: `Opening` as msgpack, deflated when it is longer than the room for it. Little endian,
naturally aligned.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum

import msgspec

from gateway.core.priority import PriorityClass

MAGIC = b"FWACTIVE"
LAYOUT = 1
HEADER_BYTES = 4096
SLOT_BYTES = 2048
SCRAP_AT = HEADER_BYTES - SLOT_BYTES  # a slot that nobody reads, for writes that come too late

HEADER = struct.Struct("<8sIIQ")  # magic, layout, bytes per slot, slots
FIXED = struct.Struct("<BBHIdIII64s")
TAKEN = struct.Struct("<B")
PHASE_AT = 1
RECEIVED = struct.Struct("<I")
RECEIVED_AT = 16
INPUT = struct.Struct("<II")
INPUT_AT = 20
REPLICA = struct.Struct("<64s")
REPLICA_AT = 28
TEXT_AT = 96
TEXT_BYTES = SLOT_BYTES - TEXT_AT
MAX_COUNT = 2**32 - 1


class Phase(IntEnum):
    ADMITTED = 1  # reserved, perhaps queued: nothing has been sent to a replica
    DISPATCHED = 2  # sent to a replica, nothing came back
    ACCEPTED = 3  # the replica has begun: its prompt counts
    RELAYING = 4  # the caller has received content


BucketParts = tuple[str, str, str, str, str]  # owner, meter, pool, class, period


class Opening(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a call when it is admitted. ``demands``: bucket and amount reserved in
    it."""

    call_id: str
    tenant: str
    key_id: str
    pool: str
    klass: PriorityClass
    endpoint: str
    model: str
    stream: bool
    arrived_at: float  # Unix epoch
    prompt_tokens: int  # estimate
    reserved_tokens: int = 0
    demands: tuple[tuple[BucketParts, float], ...] = ()
    request_id: str = ""
    batch_id: str = ""
    line_no: int | None = None
    config_version: int = 0


class Orphan(msgspec.Struct, frozen=True):
    """A call that was in flight when its process died, and what it had received."""

    opening: Opening
    phase: Phase
    received_tokens: int
    prompt_tokens: int
    cached_tokens: int
    replica: str


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Opening)
_DEFLATED = (
    b"\x78"  # first byte of every zlib stream; a msgpack array of 16 or more starts with 0xdc
)


def pack_opening(opening: Opening) -> bytes:
    """Raises ValueError when it does not fit, which limits and name lengths exclude."""
    text = _ENCODER.encode(opening)
    if len(text) > TEXT_BYTES:
        text = zlib.compress(text, 1)
    if len(text) > TEXT_BYTES:
        raise ValueError(f"call {opening.call_id}: {len(text)} bytes of names and demands")
    return text


def unpack_slot(slot: memoryview) -> Orphan | None:
    """None for a free slot. Raises ValueError for one whose text is damaged."""
    taken, phase, length, checksum, _, received, prompt, cached, replica = FIXED.unpack_from(slot)
    if not taken:
        return None
    text = bytes(slot[TEXT_AT : TEXT_AT + length])
    if zlib.crc32(text) != checksum:
        raise ValueError("the checksum of a taken slot is wrong")
    if text.startswith(_DEFLATED):
        text = zlib.decompress(text)
    return Orphan(
        opening=_DECODER.decode(text),
        phase=Phase(phase),
        received_tokens=received,
        prompt_tokens=prompt,
        cached_tokens=cached,
        replica=replica.rstrip(b"\0").decode(errors="replace"),
    )
