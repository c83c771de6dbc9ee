"""Messages that a consumer gives back: CONSUMER_SEND_MSG_BACK. Plays AbstractSendMessageProcessor's half.

The record is read again from the log and put into the retry topic of the group with a delay that grows, or, once it
was given back too often, among the group's dead letters. Body, flags and birth stay; the properties tell the first
topic and the first id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.errors import BrokerError, MessageDecodeError, StoreError
from rocketpy.message import PropertyName
from rocketpy.seams import random_source
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.headers.send import ConsumerSendMsgBackRequestHeader
from rocketpy.wire.names import dlq_topic, retry_topic
from rocketpy.wire.sysflag import Permission, TopicSysFlag
from rocketpy_broker_sim.broker.processors.checks import check_group
from rocketpy_broker_sim.broker.putting.put_pipeline import Put, StageOrder
from rocketpy_broker_sim.broker.putting.stored_records import StoredRecord, stored_record
from rocketpy_broker_sim.store.put_result import PutMessageStatus

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.bodies.groups import SubscriptionGroupConfig
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.views import SendBackView

__all__ = ["send_back"]

_FIRST_RETRY_LEVEL = 3
_OBEYS_MAX_SINCE = 121
"""Ordinal of V3_4_9, the first version whose clients say how often they want a message again."""


def send_back(broker: SendBackView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """Put a message back for its group, later or for good."""
    header = ConsumerSendMsgBackRequestHeader.from_ext(request.ext_fields)
    name = check_group(header.group)
    group = broker.groups.find(name)
    if group is None:
        return request.answer(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {name}")
    if not Permission.is_writable(broker.config.broker_permission):
        remark = f"sending to the broker {broker.config.broker_name} is forbidden"
        return request.answer(ResponseCode.NO_PERMISSION, remark)
    if group.retry_queue_nums <= 0:
        return request.answer()  # the group wants nothing again
    put = Put(wait=False)
    queue_id = _retry_queue(broker, group, header, put)
    record = _look_up(broker, header.offset)
    if _is_dead(header, group, record, request.version):
        _bury(broker, name, record, put)
    else:
        _retry(broker, name, queue_id, header.delay_level, record)
    put.message, put.properties = record.message, record.properties
    broker.pipeline.take([put], behind=StageOrder.CHECKS)
    broker.turn.rests_on(put)
    put.check()
    if put.result is None and put.refusal is not None:
        return request.answer(*put.refusal)
    if put.result is None or put.result.status is PutMessageStatus.PUT_OK:
        broker.flows.note_back(record.properties[PropertyName.RETRY_TOPIC], name)
        return request.answer()
    return request.answer(ResponseCode.SYSTEM_ERROR, put.result.status.name)


def _retry_queue(
    broker: SendBackView, group: SubscriptionGroupConfig, header: ConsumerSendMsgBackRequestHeader, put: Put
) -> int:
    """A queue of the group's retry topic, which is made on first use.

    The topic may have fewer queues than the group asks for, if either was changed since. No consumer reads queues that
    do not exist, so unlike Apache's broker this one does not choose them.

    Raises:
        BrokerError: the topic cannot be made, or not be written.
    """
    name = retry_topic(group.group_name)
    if name not in broker.topics:
        put.new_topic = name
    topic = broker.topics.create_retry(
        name,
        group.retry_queue_nums,
        sys_flag=TopicSysFlag.UNIT_SUB if header.unit_mode else 0,
        order=broker.topics.is_order(name),
    )
    if not Permission.is_writable(topic.perm):
        raise BrokerError.for_code(
            ResponseCode.NO_PERMISSION, f"the topic[{topic.topic_name}] sending message is forbidden"
        )
    return random_source().randrange(max(1, min(group.retry_queue_nums, topic.read_queue_nums)))


def _look_up(broker: SendBackView, offset: int) -> StoredRecord:
    """The message at a position of the log.

    Raises:
        BrokerError: there is none.
    """
    failure = BrokerError.for_code(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {offset}")
    try:
        data = broker.reads.read(offset) if offset >= 0 else None
        if data is None:
            raise failure
        return stored_record(data)
    except (MessageDecodeError, StoreError) as exc:
        raise failure from exc


def _is_dead(
    header: ConsumerSendMsgBackRequestHeader, group: SubscriptionGroupConfig, record: StoredRecord, version: int
) -> bool:
    most = group.retry_max_times
    if header.max_reconsume_times is not None and version >= _OBEYS_MAX_SINCE:
        most = header.max_reconsume_times
    return header.delay_level < 0 or record.head.reconsume_times >= most


def _mark(record: StoredRecord) -> None:
    """Note where the message comes from, the first time, and that this is one attempt more."""
    message, properties = record.message, record.properties
    properties.setdefault(PropertyName.RETRY_TOPIC, message.topic)
    properties.setdefault(PropertyName.ORIGIN_MESSAGE_ID, record.offset_message_id)
    properties[PropertyName.WAIT] = "false"
    message.reconsume_times += 1


def _retry(broker: SendBackView, group: str, queue_id: int, level: int, record: StoredRecord) -> None:
    level = level or _FIRST_RETRY_LEVEL + record.head.reconsume_times
    _mark(record)
    message = record.message
    message.topic, message.queue_id, message.store_host = retry_topic(group), queue_id, broker.identity.store_host
    record.properties[PropertyName.DELAY] = str(level)


def _bury(broker: SendBackView, group: str, record: StoredRecord, put: Put) -> None:
    name = dlq_topic(group)
    if name not in broker.topics:
        put.new_topic = name
    topic = broker.topics.create_retry(name, 1)
    _mark(record)
    message = record.message
    message.topic, message.queue_id, message.store_host = topic.topic_name, 0, broker.identity.store_host
    record.properties[PropertyName.DELAY] = "0"
