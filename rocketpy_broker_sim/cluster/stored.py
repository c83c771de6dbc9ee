"""Reading and writing messages and topics of a cluster's brokers without a client.

Reading removes nothing and changes no offsets. A message written here is stored and delivered like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from zlib import crc32

from rocketpy.errors import BrokerError, ConfigError
from rocketpy.message import PropertyName
from rocketpy.seams import wall_ms
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.names import AUTO_CREATE_TOPIC, check_topic
from rocketpy_broker_sim.broker.putting.put_pipeline import Put, StageOrder
from rocketpy_broker_sim.store.put_result import GetMessageStatus, IncomingMessage

if TYPE_CHECKING:
    from rocketpy.message import Message, MessageExt
    from rocketpy_broker_sim.broker.broker import Broker

__all__ = ["count_messages", "create_topic", "put", "read_queue", "read_topic"]

_AT_ONCE = 32
_NEW_TOPIC_QUEUES = 4
"""Queues of a topic that is created by its first message, as with a producer."""


# --- reading -------------------------------------------------------------------------------------------


def read_queue(broker: Broker, topic: str, queue_id: int, offset: int = 0) -> Iterator[MessageExt]:
    """The messages of a queue, from `offset` on."""
    offset = max(offset, broker.store.reads.min_offset(topic, queue_id))
    while True:
        found = broker.store.reads.get(topic, queue_id, offset, _AT_ONCE)
        if found.status is not GetMessageStatus.FOUND:
            return
        yield from decode_messages(found.records, broker_name=broker.config.broker_name)
        offset = found.next_begin_offset


def read_topic(brokers: Sequence[Broker], topic: str) -> list[MessageExt]:
    """All messages of a topic, in the order in which they were stored."""
    found = [
        (message.store_timestamp, number, message.commit_log_offset, message)
        for number, broker in enumerate(brokers)
        for queue_id in broker.store.reads.queue_ids(topic)
        for message in read_queue(broker, topic, queue_id)
    ]
    return [message for *_, message in sorted(found, key=lambda each: each[:3])]


def count_messages(brokers: Sequence[Broker], topic: str) -> int:
    """The number of messages of a topic."""
    return sum(
        broker.store.reads.max_offset(topic, queue_id) - broker.store.reads.min_offset(topic, queue_id)
        for broker in brokers
        for queue_id in broker.store.reads.queue_ids(topic)
    )


# --- writing -------------------------------------------------------------------------------------------


def create_topic(brokers: Sequence[Broker], topic: str, queues: int) -> None:
    """Create a topic on each of the brokers, or change its number of queues.

    Raises:
        ConfigError: no broker is running, or the topic is a system topic.
    """
    if not brokers:
        raise ConfigError(f"no broker is running that could have the topic {topic}: start one first")
    if any(broker.topics.is_system(topic) for broker in brokers):
        raise ConfigError(f"{topic} is a system topic: choose another name")
    for broker in brokers:
        broker.topics.put(TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues))


def put(brokers: Sequence[Broker], message: Message, turn: int) -> str:
    """Store a message on one of the brokers, and return its id.

    Args:
        brokers: the running brokers.
        message: the message.
        turn: how many messages were stored before, because queues are used in turn. A sharding key decides the queue.

    Raises:
        ConfigError: no broker is running, or the message cannot be stored by a cluster.
        BrokerError: the topic does not exist and is not created on first use, or a limit is reached.
    """
    check_topic(message.topic)
    places = [
        (broker, queue_id) for broker in brokers for queue_id in range(_topic(broker, message.topic).write_queue_nums)
    ]
    if not places:
        raise ConfigError(f"no broker is running that could store a message of {message.topic}: start one first")
    key = message.wire_properties.get(PropertyName.SHARDING_KEY)
    broker, queue_id = places[(turn if key is None else crc32(key.encode())) % len(places)]
    properties = dict(message.wire_properties)
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
