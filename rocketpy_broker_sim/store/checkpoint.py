"""The checkpoint file: how far log and queues had reached the disk when it was written.

Apache's broker keeps times there, in the first 40 of 4096 bytes, and leaves the rest alone. We add positions behind
them, in the same disk sector, so that recovery need not trust clocks. Ours count only while Apache's times beside them
are those we wrote: another broker that opened the store in between moves them.
Plays the part of StoreCheckpoint.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from rocketpy.seams import Storage

__all__ = ["PATH", "Checkpoint", "read_checkpoint", "write_checkpoint"]

PATH = "checkpoint"
_FILE_SIZE = 4096
_JAVA = struct.Struct(">qqqqq")
_OURS_AT = 64
_OURS = struct.Struct(">8sqqI")
_MAGIC = b"RPYCHKP1"
_SEAL_AT = 128
_SEAL = struct.Struct(">8sqqI")
_SEAL_MAGIC = b"RPYSEAL1"
_UNKNOWN = -1
_INDEX_AT = _OURS_AT + _OURS.size
_INDEX_MAGIC = b"RPYINDX1"


@attrs.frozen(kw_only=True)
class Checkpoint:
    """What the file says.

    Attributes:
        log_timestamp: Store time of the last flushed record, ms.
        queue_timestamp: Store time of the last record whose consume queue unit is flushed.
        index_timestamp: Store time of the last record in the newest full index file.
        master_flushed: Kept for a slave: how far its master had flushed.
        confirmed: Kept for replication: position that the replicas have confirmed.
        flushed: Position up to which the log is flushed; None when only the times can be trusted.
        dispatched: Position up to which the consume queues are flushed; None likewise.
        sealed_from: Position from which on every record ends with its own checksum; None when nobody knows of one.
        units: Units of all queues together up to `dispatched`, at least; None when nobody counted them.
        indexed: Position up to which the key index is flushed; None likewise, and where there never was one.
        index_end: Where the last message stands that the index has; -1 when it is empty.
    """

    log_timestamp: int = 0
    queue_timestamp: int = 0
    index_timestamp: int = 0
    master_flushed: int = 0
    confirmed: int = 0
    flushed: int | None = None
    dispatched: int | None = None
    sealed_from: int | None = None
    units: int | None = None
    indexed: int | None = None
    index_end: int = -1

    @property
    def safe_timestamp(self) -> int:
        """Records up to here are in log and queues; three seconds earlier than written, as in Java."""
        return max(0, min(self.log_timestamp, self.queue_timestamp) - 3000)

    @property
    def settled(self) -> int | None:
        """Position up to which the disk has log and queues for good; None when only the times can be trusted."""
        if self.flushed is None or self.dispatched is None:
            return None
        return min(self.flushed, self.dispatched)


def read_checkpoint(storage: Storage) -> Checkpoint:
    """What the file says; all zero when there is none or it is cut off."""
    try:
        data = storage.read_bytes(PATH)
    except FileNotFoundError:
        return Checkpoint()
    if len(data) < _JAVA.size:
        return Checkpoint()
    java = _JAVA.unpack_from(data)
    names = ("log_timestamp", "queue_timestamp", "index_timestamp", "master_flushed", "confirmed")
    known = dict(zip(names, java, strict=True))
    if len(data) < _OURS_AT + _OURS.size:
        return Checkpoint(**known)
    magic, flushed, dispatched, crc = _OURS.unpack_from(data, _OURS_AT)
    if magic != _MAGIC or crc != _crc(java, flushed, dispatched):
        return Checkpoint(**known)
    more = {**_read_seal(data, java), **_read_index(data, java)}
    return Checkpoint(**known, flushed=flushed, dispatched=dispatched, **more)


def _read_seal(data: bytes, java: tuple[int, ...]) -> dict[str, int]:
    """From where on records are sealed, and how many units there are, as far as the file says so."""
    if len(data) < _SEAL_AT + _SEAL.size:
        return {}
    magic, sealed_from, units, crc = _SEAL.unpack_from(data, _SEAL_AT)
    if magic != _SEAL_MAGIC or crc != _seal_crc(java, sealed_from, units):
        return {}
    found = {"sealed_from": sealed_from, "units": units}
    return {name: value for name, value in found.items() if value != _UNKNOWN}


def _read_index(data: bytes, java: tuple[int, ...]) -> dict[str, int]:
    """What the file says of the key index, when it says anything."""
    if len(data) < _INDEX_AT + _OURS.size:
        return {}
    magic, indexed, end, crc = _OURS.unpack_from(data, _INDEX_AT)
    right = magic == _INDEX_MAGIC and crc == _crc(java, indexed, end, _INDEX_MAGIC)
    return {"indexed": indexed, "index_end": end} if right else {}


def write_checkpoint(storage: Storage, checkpoint: Checkpoint) -> None:
    """Write the file over and return when the disk has it; all that counts lies in one sector."""
    data = bytearray(_FILE_SIZE)
    java = (
        checkpoint.log_timestamp,
        checkpoint.queue_timestamp,
        checkpoint.index_timestamp,
        checkpoint.master_flushed,
        checkpoint.confirmed,
    )
    _JAVA.pack_into(data, 0, *java)
    flushed, dispatched = checkpoint.flushed or 0, checkpoint.dispatched or 0
    _OURS.pack_into(data, _OURS_AT, _MAGIC, flushed, dispatched, _crc(java, flushed, dispatched))
    seal, units = (_UNKNOWN if value is None else value for value in (checkpoint.sealed_from, checkpoint.units))
    _SEAL.pack_into(data, _SEAL_AT, _SEAL_MAGIC, seal, units, _seal_crc(java, seal, units))
    indexed, end = checkpoint.indexed, checkpoint.index_end
    if indexed is not None:
        _OURS.pack_into(data, _INDEX_AT, _INDEX_MAGIC, indexed, end, _crc(java, indexed, end, _INDEX_MAGIC))
    is_new = not storage.exists(PATH)
    file = storage.open(PATH, create=True)
    try:
        file.pwrite(data, 0)
        file.fdatasync()
    finally:
        file.close()
    if is_new:
        storage.sync_dir("")


def _crc(java: tuple[int, ...], first: int, second: int, magic: bytes = _MAGIC) -> int:
    """Over Java's times too: they change when Apache's broker has written since."""
    return zlib.crc32(_JAVA.pack(*java) + _OURS.pack(magic, first, second, 0))


def _seal_crc(java: tuple[int, ...], sealed_from: int, units: int) -> int:
    """Over Java's times as well, for the same reason: its records may carry no checksum."""
    return zlib.crc32(_JAVA.pack(*java) + _SEAL.pack(_SEAL_MAGIC, sealed_from, units, 0))
