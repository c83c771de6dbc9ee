"""Records that stand where a repair took damaged ones away: they keep positions and queue offsets what they were.

A place holder of a queue is an ordinary message under a tag of its own, so that any broker can rebuild the queue from
the log without a gap; ours never gives it away. Where no queue misses anything, a filler record of a kind that no
queue takes closes the hole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.wire.java_hash import tags_code
from rocketpy.wire.properties import CRC_PROPERTY_SIZE
from rocketpy.wire.record import (
    encode_record,
    fill_crc_property,
    read_head,
    record_size,
    reserve_crc_property,
)
from rocketpy.wire.sysflag import TRANSACTION_ROLLBACK

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.log.commit_log import CommitLog

__all__ = [
    "PLACE_HOLDER_CODE",
    "PLACE_HOLDER_TAG",
    "filler",
    "is_place_holder",
    "least_filler",
    "place_holder",
    "place_holder_size",
]

PLACE_HOLDER_TAG = "ROCKETPY_DAMAGED"
PLACE_HOLDER_CODE = tags_code(PLACE_HOLDER_TAG)
"""What their units carry; other tags may have this code too, so the record decides."""
_PROPERTIES = f"TAGS\x01{PLACE_HOLDER_TAG}\x02".encode()
_FILLER_TOPIC = b"RMQ_SYS_DAMAGED"
_HOST = bytes(8)


def place_holder(
    topic: bytes, queue_id: int, queue_offset: int, position: int, store_timestamp: int, *, extra: int = 0
) -> bytes:
    """The record for one lost message.

    Args:
        topic: Its topic.
        queue_id: Its queue.
        queue_offset: Its offset.
        position: Where the place holder will stand.
        store_timestamp: Of the records around it, ms.
        extra: How many bytes longer than the shortest one it is to be.
    """
    return _record(topic, queue_id, queue_offset, position, store_timestamp, bytes(extra), 0, _PROPERTIES)


def place_holder_size(topic: bytes) -> int:
    """Bytes of the shortest place holder of a topic."""
    return record_size(topic, b"", reserve_crc_property(_PROPERTIES))


def filler(size: int, position: int, store_timestamp: int) -> bytes:
    """A record of exactly `size` bytes that belongs to no queue and no index."""
    body = bytes(size - least_filler())
    return _record(_FILLER_TOPIC, 0, 0, position, store_timestamp, body, TRANSACTION_ROLLBACK, b"")


def least_filler() -> int:
    """Bytes of the shortest filler record."""
    return record_size(_FILLER_TOPIC, b"", reserve_crc_property(b""))


def _record(
    topic: bytes,
    queue_id: int,
    queue_offset: int,
    position: int,
    store_timestamp: int,
    body: bytes,
    sys_flag: int,
    properties: bytes,
) -> bytes:
    # With the checksum over all of it, as a store may ask for that of every record.
    record = encode_record(
        topic=topic,
        body=body,
        properties=reserve_crc_property(properties),
        queue_id=queue_id,
        flag=0,
        queue_offset=queue_offset,
        physical_offset=position,
        sys_flag=sys_flag,
        born_timestamp=store_timestamp,
        born_host=_HOST,
        store_timestamp=store_timestamp,
        store_host=_HOST,
    )
    return fill_crc_property(record)


def is_place_holder(log: CommitLog, position: int, size: int) -> bool:
    """Whether the record at a position, whose unit has the code of place holders, is one."""
    record = log.read(position, size)
    if record is None:
        return False
    ending = len(_PROPERTIES) + CRC_PROPERTY_SIZE
    return record[-ending:-CRC_PROPERTY_SIZE] == _PROPERTIES and not any(read_head(record).born_host)
