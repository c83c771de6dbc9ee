"""Why bytes that stand where a record should be are no valid record, in words for an operator."""

from __future__ import annotations

from rocketpy.errors import MessageDecodeError
from rocketpy.wire.message_codec import decode_record, read_head
from rocketpy.wire.record import BLANK_MAGIC, MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE, has_valid_crc_property

__all__ = ["reason_of"]


def reason_of(data: bytes, position: int, left: int) -> str:
    """What is wrong with the bytes at a position of the log.

    Args:
        data: The bytes, as many as the record says it has if it says something possible.
        position: Where they stand.
        left: Bytes from there to the end of the file.
    """
    try:
        head = read_head(data)
    except MessageDecodeError:
        return "the file ends within a record"
    if head.magic == BLANK_MAGIC:
        return f"a filler of {head.total_size} bytes, where the file has {left} left"
    if head.magic not in (MAGIC_V1, MAGIC_V2):
        return f"unknown magic number {head.magic & 0xFFFFFFFF:#010x}: damaged, foreign or of a newer format"
    if not MIN_RECORD_SIZE <= head.total_size <= left:
        return f"a size of {head.total_size} bytes, where {MIN_RECORD_SIZE} to {left} are possible"
    if head.physical_offset != position:
        return f"a record that says it belongs to position {head.physical_offset}"
    try:
        decode_record(data)
    except MessageDecodeError as error:
        return "the body does not match its checksum" if "CRC" in str(error) else "its parts do not add up to its size"
    if has_valid_crc_property(data) is False:
        return "the record does not match its checksum"
    return "a topic name that no broker takes"
