"""The attribute names of OpenTelemetry's semantic conventions for messaging, and the attributes of messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rocketpy.message import PropertyName
from rocketpy.wire.message_id import decode_offset_message_id

if TYPE_CHECKING:
    from rocketpy.message import Message, MessageExt
    from rocketpy.results import SendResult

__all__ = [
    "BATCH_COUNT",
    "CLIENT_ID",
    "CONSUMER_GROUP",
    "DESTINATION",
    "ERROR_TYPE",
    "MESSAGE_ID",
    "OPERATION",
    "OPERATION_TYPE",
    "RESULT",
    "SYSTEM",
    "TRANSACTION_STATE",
    "Attributes",
    "error_type",
    "of_message",
    "of_result",
]

Attributes = dict[str, Any]

SYSTEM: Final = "messaging.system"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
CONSUMER_GROUP: Final = "messaging.consumer.group.name"
PRODUCER_GROUP: Final = "messaging.rocketmq.client_group"
CLIENT_ID: Final = "messaging.client.id"
MESSAGE_ID: Final = "messaging.message.id"
BODY_SIZE: Final = "messaging.message.body.size"
BATCH_COUNT: Final = "messaging.batch.message_count"
TAG: Final = "messaging.rocketmq.message.tag"
KEYS: Final = "messaging.rocketmq.message.keys"
KIND: Final = "messaging.rocketmq.message.type"
SHARDING_KEY: Final = "messaging.rocketmq.message.group"
DELAY_LEVEL: Final = "messaging.rocketmq.message.delay_time_level"
DELIVERY: Final = "messaging.rocketmq.message.delivery_timestamp"
SERVER: Final = "server.address"
PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"
RESULT: Final = "messaging.rocketmq.consume_result"
"""Not in the conventions: the result of a listener that is not a success."""
TRANSACTION_STATE: Final = "messaging.rocketmq.transaction_state"
"""Not in the conventions: the state of a transaction."""

_DELAYED = (
    PropertyName.DELAY,
    PropertyName.TIMER_DELAY_SEC,
    PropertyName.TIMER_DELAY_MS,
    PropertyName.TIMER_DELIVER_MS,
)


def of_message(message: Message | MessageExt) -> Attributes:
    """The attributes of one message."""
    properties = message.wire_properties
    found: Attributes = {BODY_SIZE: len(message.body), KIND: _kind(properties)}
    if message.tags:
        found[TAG] = message.tags
    if message.keys:
        found[KEYS] = list(message.keys)
    if message.sharding_key:
        found[SHARDING_KEY] = message.sharding_key
    if message.delay_level:
        found[DELAY_LEVEL] = message.delay_level
    deliver = properties.get(PropertyName.TIMER_DELIVER_MS)
    if deliver is not None and deliver.isdecimal():
        found[DELIVERY] = int(deliver)
    return found


def _kind(properties: Mapping[str, str]) -> str:
    if PropertyName.TRANSACTION_PREPARED in properties:
        return "transaction"
    if any(name in properties for name in _DELAYED):
        return "delay"
    return "fifo" if PropertyName.SHARDING_KEY in properties else "normal"


def of_result(result: SendResult) -> Attributes:
    """The attributes of the place where a message is stored."""
    found: Attributes = {MESSAGE_ID: result.message_id.split(",", 1)[0], PARTITION: str(result.queue.queue_id)}
    try:
        place = decode_offset_message_id(result.offset_message_id.split(",", 1)[0])
    except ValueError:
        return found
    return found | {SERVER: place.ip, PORT: place.port}


def error_type(error: BaseException) -> str:
    """The value of `error.type`: the class with its module, unless it is built in."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def topics_of(messages: Sequence[Message | MessageExt]) -> str | None:
    """The topic of messages; None if there are several topics."""
    topics = {message.topic for message in messages}
    return topics.pop() if len(topics) == 1 else None
