"""What brokers of a cluster hold, read and written without any client.

Reading takes nothing away and moves no group. What is put here is stored and given to consumers like any other message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from zlib import crc32

from rocketpy.errors import BrokerError, ConfigError
from rocketpy.message import PropertyName
from rocketpy.seams import wall_ms
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.names import AUTO_CREATE_TOPIC, check_topic
from rocketpy_broker_sim.broker.put_pipeline import Put, StageOrder
from rocketpy_broker_sim.store.put_result import GetMessageStatus, IncomingMessage

if TYPE_CHECKING:
    from rocketpy.message import Message, MessageExt
    from rocketpy.wire.bodies.topics import TopicConfig
    from rocketpy_broker_sim.broker.broker import Broker

__all__ = ["count_messages", "put", "read_queue", "read_topic"]

_AT_ONCE = 32
_NEW_TOPIC_QUEUES = 4
"""Queues of a topic that the first message makes, as with a producer."""


# --- reading -------------------------------------------------------------------------------------------


def read_queue(broker: Broker, topic: str, queue_id: int, offset: int = 0) -> Iterator[MessageExt]:
    """The messages of a queue from an offset on."""
    offset = max(offset, broker.store.reads.min_offset(topic, queue_id))
    while True:
        found = broker.store.reads.get(topic, queue_id, offset, _AT_ONCE)
        if found.status is not GetMessageStatus.FOUND:
            return
        yield from decode_messages(found.records, broker_name=broker.config.broker_name)
        offset = found.next_begin_offset


def read_topic(brokers: Sequence[Broker], topic: str) -> list[MessageExt]:
    """Everything of a topic, in the order in which it was stored."""
    found = [
        (message.store_timestamp, number, message.commit_log_offset, message)
        for number, broker in enumerate(brokers)
        for queue_id in broker.store.reads.queue_ids(topic)
        for message in read_queue(broker, topic, queue_id)
    ]
    return [message for *_, message in sorted(found, key=lambda each: each[:3])]


def count_messages(brokers: Sequence[Broker], topic: str) -> int:
    """How many messages of a topic there are."""
    return sum(
        broker.store.reads.max_offset(topic, queue_id) - broker.store.reads.min_offset(topic, queue_id)
        for broker in brokers
        for queue_id in broker.store.reads.queue_ids(topic)
    )


# --- writing -------------------------------------------------------------------------------------------


def put(brokers: Sequence[Broker], message: Message, turn: int) -> str:
    """Store a message in one of the brokers; returns its id.

    Args:
        brokers: those that run.
        message: what to store.
        turn: how many were stored before: queues take turns. Messages with a sharding key have a queue of their own.

    Raises:
        ConfigError: no broker runs, or the message cannot be stored by a cluster.
        BrokerError: the topic does not exist and is not made on first use, or a limit is reached.
    """
    check_topic(message.topic)
    places = [
        (broker, queue_id) for broker in brokers for queue_id in range(_topic(broker, message.topic).write_queue_nums)
    ]
    if not places:
        raise ConfigError(f"no broker runs that could take a message of {message.topic}: start one first")
    key = message.properties.get(PropertyName.SHARDING_KEY)
    broker, queue_id = places[(turn if key is None else crc32(key.encode())) % len(places)]
    properties = dict(message.properties)
    properties[PropertyName.UNIQUE_KEY] = message_id = broker.identity.unique_ids.next()
    put = Put(_incoming(broker, message, queue_id, properties), properties)
    broker.pipeline.take([put], behind=StageOrder.CHECKS)
    if put.error is not None:
        raise put.error
    if put.refusal is not None:
        raise BrokerError.for_code(*put.refusal, doing=f"storing {message!r}")
    broker.storing.turn.rests_on(put)
    broker.storing.commit()
    return message_id


def _topic(broker: Broker, name: str) -> TopicConfig:
    topic = broker.topics.create_on_send(name, AUTO_CREATE_TOPIC, _NEW_TOPIC_QUEUES)
    if topic is None:
        raise BrokerError.for_code(
            ResponseCode.TOPIC_NOT_EXIST,
            f"{name} does not exist and auto_create_topic_enable is off: create the topic first",
            address=broker.address,
        )
    return topic


def _incoming(broker: Broker, message: Message, queue_id: int, properties: dict[str, str]) -> IncomingMessage:
    properties.update(broker.identity.added_property_map)
    return IncomingMessage(
        message.topic,
        queue_id,
        message.body,
        flag=message.flag,
        born_timestamp=wall_ms(),
        born_host=broker.identity.store_host,
        store_host=broker.identity.store_host,
    )
