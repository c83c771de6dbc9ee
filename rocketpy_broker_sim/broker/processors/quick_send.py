"""The usual send in as few steps as there are: one message, to a topic that is there, with plain properties.

What is not usual in any respect is left to `send`, which alone decides what is refused and in which words; both store
the same record and give the same answer. The answer is made as the frame that is sent.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from rocketpy.message import PropertyName
from rocketpy.wire.codes import CURRENT_VERSION
from rocketpy.wire.names import NOT_ALLOWED_SEND
from rocketpy.wire.properties import decode_properties
from rocketpy_broker_sim.broker.putting import packed_address
from rocketpy_broker_sim.store.put_result import IncomingMessage, PutMessageStatus

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.bodies.topics import TopicConfig
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.broker import Broker

__all__ = ["send_quickly"]

_WORDS = struct.Struct(">ii")
_INT32 = 2**31
_INT64 = 2**63
_TAIL = f'"serializeTypeCurrentRPC":"JSON","version":{CURRENT_VERSION}}}'
_UNIQUE_KEY = PropertyName.UNIQUE_KEY
_OK = PutMessageStatus.PUT_OK


def send_quickly(
    broker: Broker, connection: Connection, request: RemotingCommand, watched: AbstractSet[str], client_flags: int
) -> bytes | None:
    """Put a message and give the answer's frame; None when this is no usual send, and nothing was put.

    Args:
        broker: where to.
        connection: where from.
        request: a SEND_MESSAGE_V2 with a JSON header.
        watched: properties that need a closer look.
        client_flags: bits of the flag word that are the client's to set.
    """
    ext = request.ext_fields
    try:
        name, text = ext["b"], ext["i"]
        queue_id, sys_flag, born, flag = int(ext["e"]), int(ext["f"]), int(ext["g"]), int(ext["h"])
    except (KeyError, ValueError):
        return None
    topic = broker.topics.get(name)
    if topic is None or not _is_usual(topic, queue_id, ext) or not request.body or text[-1:] != "\x02":
        return None
    if not (-_INT32 <= flag < _INT32 and -_INT64 <= born < _INT64 and -_INT32 <= sys_flag < _INT32):
        return None
    properties = decode_properties(text)
    key = properties.get(_UNIQUE_KEY, "")
    if not (key.isalnum() and key.isascii() and watched.isdisjoint(properties)):
        return None
    sender, host = packed_address(connection.address), broker.store_host
    message = IncomingMessage(
        name, queue_id, request.body, text + broker.added_properties, flag, sys_flag & client_flags, born, sender, host
    )
    result = broker.put(message)
    if result.status is not _OK:
        return None
    header = (
        f'{{"code":0,"extFields":{{"msgId":"{broker.store_host_text}{result.physical_offset:016X}",'
        f'"queueId":"{queue_id}","queueOffset":"{result.queue_offset}",{broker.send_fields_text},'
        f'"transactionId":"{key}"}},"flag":1,"language":"PYTHON","opaque":{request.opaque},{_TAIL}'
    ).encode()
    return _WORDS.pack(4 + len(header), len(header)) + header


def _is_usual(topic: TopicConfig, queue_id: int, ext: dict[str, str]) -> bool:
    return (
        0 <= queue_id < topic.write_queue_nums
        and not topic.order
        and topic.topic_name[0] != "%"
        and topic.topic_name not in NOT_ALLOWED_SEND
        and ext.get("m", "false") == "false"
        and ext.get("j", "0") == "0"
    )
