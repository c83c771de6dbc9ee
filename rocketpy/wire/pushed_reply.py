"""Replies that a broker pushes to the client that made the request: a header and a body, as a message. Pure.

Plays the part of receiveReplyMessage in ClientRemotingProcessor.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rocketpy.errors import ConfigError
from rocketpy.message import MessageExt, PropertyName, RecordHead
from rocketpy.wire.compression import decompress
from rocketpy.wire.hosts import pack_host, parse_address
from rocketpy.wire.properties import decode_properties
from rocketpy.wire.stored_message import StoredMessage
from rocketpy.wire.sysflag import COMPRESSED

if TYPE_CHECKING:
    from rocketpy.wire.headers.send import ReplyMessageRequestHeader

__all__ = ["pushed_reply"]

_NOWHERE = bytes(8)


def pushed_reply(header: ReplyMessageRequestHeader, body: bytes, *, arrived: int) -> MessageExt:
    """The pushed reply, as a message. Its body is decompressed on first use.

    Args:
        header: The header of the push.
        body: The body of the push.
        arrived: When it arrived, ms since 1970.
    """
    message = StoredMessage.__new__(StoredMessage)
    message.topic = header.topic
    message.broker_name = ""
    message._packed_properties = None
    message._properties = decode_properties(header.properties or "")
    message._properties[PropertyName.ARRIVE_TIME] = str(arrived)
    message._body = body
    message._inflate = partial(decompress, body, header.sys_flag) if header.sys_flag & COMPRESSED else None
    message._head = RecordHead(
        total_size=0,
        magic=0,
        body_crc=0,
        queue_id=header.queue_id,
        flag=header.flag,
        queue_offset=0,
        physical_offset=0,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        born_host=_packed(header.born_host),
        store_timestamp=header.store_timestamp,
        store_host=_packed(header.store_host),
        reconsume_times=header.reconsume_times or 0,
        prepared_transaction_offset=0,
        body_length=len(body),
    )
    return message


def _packed(address: str) -> bytes:
    """An address in the form that records have; zeros for anything that is not an address, such as a name."""
    try:
        host, port = parse_address(address)
        return pack_host(host.strip("[]"), port)
    except ConfigError:
        return _NOWHERE
