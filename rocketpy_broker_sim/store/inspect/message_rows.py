"""Entries of the log as rows for machines: names and plain values, the same for every tool that lists messages.

The field names are documented in docs/reference/servers.md and do not change.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

from rocketpy.errors import RocketMQError
from rocketpy.wire.hosts import format_address, unpack_host
from rocketpy.wire.message_codec import decode_record, read_head
from rocketpy.wire.message_id import offset_message_id
from rocketpy.wire.record import MAGIC_V1

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.inspect.walk import LogEntry

__all__ = ["MAX_BODY", "Row", "entry_row", "message_row"]

MAX_BODY = 512
"""Bytes of a body that is shown in a row unless all are asked for."""
Row = dict[str, Any]


def entry_row(entry: LogEntry, *, pulled: bool = False, max_body: int | None = MAX_BODY) -> Row:
    """The row of anything in the log."""
    if entry.kind == "message":
        name = entry.file.path.rpartition("/")[2]
        return message_row(entry.data, name, entry.position - entry.file.start, pulled=pulled, max_body=max_body)
    if entry.kind == "end":
        return {"kind": "end", "physicalOffset": entry.position}
    row: Row = {"kind": entry.kind, "file": entry.file.path.rpartition("/")[2]}
    row |= {"physicalOffset": entry.position, "size": entry.size}
    return row | {"reason": entry.reason} if entry.kind == "damage" else row


def message_row(record: bytes, file: str, at: int, *, pulled: bool, max_body: int | None = MAX_BODY) -> Row:
    """The row of a message.

    Args:
        record: Its whole record, which must be valid.
        file: Name of the log file that holds it.
        at: Where in that file it begins.
        pulled: Whether its queue leads to it.
        max_body: Bodies longer than that are left out; None shows all of them.
    """
    head = read_head(record)
    message = decode_record(record, check_crc=False)
    properties = message.wire_properties
    return {
        "kind": "message",
        "file": file,
        "positionInFile": at,
        "physicalOffset": head.physical_offset,
        "storeSize": head.total_size,
        "version": 1 if head.magic == MAGIC_V1 else 2,
        "topic": message.topic,
        "queueId": head.queue_id,
        "queueOffset": head.queue_offset,
        "flag": head.flag,
        "sysFlag": head.sys_flag,
        "bornTimestamp": head.born_timestamp,
        "bornHost": _address(head.born_host),
        "storeTimestamp": head.store_timestamp,
        "storeHost": _address(head.store_host),
        "reconsumeTimes": head.reconsume_times,
        "preparedTransactionOffset": head.prepared_transaction_offset,
        "bodyCRC": head.body_crc,
        "storedBodyLength": head.body_length,
        "properties": dict(properties),
        "tags": properties.get("TAGS"),
        "keys": properties.get("KEYS"),
        "uniqKey": properties.get("UNIQ_KEY"),
        "offsetMsgId": offset_message_id(head.store_host, head.physical_offset),
        "pulledLive": pulled,
    } | _body_fields(message, max_body)


def _body_fields(message: Any, max_body: int | None) -> Row:
    try:
        body = message.body
    except RocketMQError as error:
        return {"bodyError": str(error)}
    fields = {"bodyLength": len(body), "bodySha256": hashlib.sha256(body).hexdigest()}
    if max_body is None or len(body) <= max_body:
        fields["body"] = base64.b64encode(body).decode()
    return fields


def _address(host: bytes) -> str:
    return format_address(*unpack_host(host))
