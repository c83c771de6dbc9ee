"""A stored message, valid or not, that a broker asks a client to consume directly."""

from __future__ import annotations

from rocketpy.wire.record import encode_record
from tests.hostile.samples import DRIVEN


def message(
    body: bytes = b"directly", *, topic: str = DRIVEN, properties: bytes = b"", sys_flag: int = 0, queue_id: int = 0
) -> bytes:
    """One stored message."""
    return encode_record(
        topic=topic.encode(),
        body=body,
        properties=properties,
        queue_id=queue_id,
        flag=0,
        queue_offset=0,
        physical_offset=0,
        sys_flag=sys_flag,
        born_timestamp=1,
        born_host=bytes(8),
        store_timestamp=1,
        store_host=bytes(8),
    )
