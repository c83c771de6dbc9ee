"""Records in the words of the lists beside Apache's stores: each line of ``messages.jsonl`` is compared as a whole."""

from __future__ import annotations

import base64
import hashlib
import struct

from rocketpy.message import MessageExt
from rocketpy.wire.message_codec import decode_record
from rocketpy.wire.record import BLANK_MAGIC, MAGIC_V1, MAGIC_V2

_SIZE_AND_MAGIC = struct.Struct(">ii")
_BODY_LENGTH_AT = 84  # with IPv4 addresses, which is what these stores hold
_VERSIONS = {MAGIC_V1: 1, MAGIC_V2: 2}
SMALL_BODY = 512


def described(data: bytes) -> dict[str, object]:
    """A record as its line tells of it, but for what only the broker that wrote it can know."""
    record = decode_record(data)
    position = record.commit_log_offset
    line = {
        **_head(record),
        **_texts(record),
        "kind": "message",
        "physicalOffset": position,
        "version": _VERSIONS[_SIZE_AND_MAGIC.unpack_from(data)[1]],
        "storedBodyLength": int.from_bytes(data[_BODY_LENGTH_AT : _BODY_LENGTH_AT + 4], "big"),
        "bodyLength": len(record.body),
        "bodySha256": hashlib.sha256(record.body).hexdigest(),
    }
    if len(record.body) <= SMALL_BODY:
        line["body"] = base64.b64encode(record.body).decode()
    return line


def expected(row: dict[str, object]) -> dict[str, object]:
    """A line of the list without what does not stand in the record."""
    return {name: value for name, value in row.items() if name not in ("pulledLive", "file", "positionInFile")}


def end_of_part(data: bytes) -> dict[str, object]:
    """What stands where no record does: a filler with its size, or nothing yet."""
    size, magic = _SIZE_AND_MAGIC.unpack_from(data)
    return {"kind": "blank", "size": size} if magic == BLANK_MAGIC else {"kind": "end", "size": size}


def _head(record: MessageExt) -> dict[str, object]:
    return {
        "bodyCRC": record.body_crc,
        "bornHost": record.born_host,
        "bornTimestamp": record.born_timestamp,
        "flag": record.flag,
        "offsetMsgId": record.offset_message_id,
        "preparedTransactionOffset": record.prepared_transaction_offset,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "reconsumeTimes": record.reconsume_times,
        "storeHost": record.store_host,
        "storeSize": record.store_size,
        "storeTimestamp": record.store_timestamp,
        "sysFlag": record.sys_flag,
    }


def _texts(record: MessageExt) -> dict[str, object]:
    properties = record.wire_properties
    return {
        "topic": record.topic,
        "properties": properties,
        "keys": properties.get("KEYS"),
        "tags": properties.get("TAGS"),
        "uniqKey": properties.get("UNIQ_KEY"),
    }
