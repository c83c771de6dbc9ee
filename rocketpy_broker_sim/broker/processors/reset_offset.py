"""INVOKE_BROKER_TO_RESET_OFFSET: have a group go on from another time or offset. Plays the part of resetOffset in
AdminBrokerProcessor and in Broker2Client.

The settings choose between two ways. Either the broker notes the positions and answers pulls of the group with them,
both held and new ones (`tables.resets` says for how long), which works even if no client is connected. Or it sends the
positions to the clients of the group, which commit them.
"""

from __future__ import annotations

from collections.abc import Generator
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, cast

from rocketpy.errors import BrokerError, RocketMQError
from rocketpy.logs import get_logger, quote
from rocketpy.message import MessageQueue
from rocketpy.wire.bodies.offsets import MessageQueueForC, ResetOffsetBody, ResetOffsetBodyForC
from rocketpy.wire.codes import LanguageCode, RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.offset import ResetOffsetRequestHeader
from rocketpy_broker_sim.broker.processors.checks import check_group, check_topic, invalid
from rocketpy_broker_sim.broker.tables.offsets import NOT_FOUND
from rocketpy_broker_sim.serving.encoding import encode_steps

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.bodies.topics import TopicConfig
    from rocketpy_broker_sim.broker.tables.clients import ClientChannel
    from rocketpy_broker_sim.broker.views import ResetView
    from rocketpy_broker_sim.serving.slices import Steps

__all__ = ["reset_offset"]

log = get_logger(__name__)

_NO_OFFSET = -1
_V3_0_7 = 28
"""Ordinal of V3_0_7_SNAPSHOT, the first version whose clients can be told."""
_QUEUES_PER_STEP = 16
_TABLE_BEGINS, _TABLE_ENDS = b'{"offsetTable":{', b"}}"


def reset_offset(broker: ResetView, connection: Connection, request: RemotingCommand) -> Steps:
    """Set the position of a group on one queue of a topic, or on all of them. A sliced processor."""
    header = ResetOffsetRequestHeader.from_ext(request.ext_fields)
    group, name = check_group(header.group), check_topic(header.topic)
    topic = broker.topics.get(name)
    if topic is None:
        return request.answer(ResponseCode.TOPIC_NOT_EXIST, f"the topic {name} does not exist")
    log.info("%s resets the offsets of %s on %s to %d", quote(connection.address), group, name, header.timestamp)
    if not broker.config.use_server_side_reset_offset:
        return (yield from _tell_clients(broker, request, header, topic))
    offsets = yield from _positions(broker, header, topic)
    answer = request.answer(body=(yield from _encode(broker.config.broker_name, name, offsets)))
    refusal = _refusal_of_changed(broker, request, topic)
    if refusal is not None:
        return refusal
    # The answer and the tables may each take megabytes: its body goes before the tables grow, and its frame stays.
    frame = connection.prepare_answer(request, answer)
    del answer
    broker.offsets.assign_resets(group, name, offsets)
    broker.waiters.recall(group, name, offsets)
    broker.persistence.send_after_save(connection, request, frame)
    return None


def _refusal_of_changed(broker: ResetView, request: RemotingCommand, topic: TopicConfig) -> RemotingCommand | None:
    """The answer if the topic that positions were found for was deleted or changed since; None otherwise.

    With these positions the group would skip messages of a new topic of that name.
    """
    name = topic.topic_name
    if name not in broker.topics:
        return request.answer(ResponseCode.TOPIC_NOT_EXIST, f"the topic {name} was deleted meanwhile")
    if broker.topics.get(name) is not topic:
        return request.answer(ResponseCode.SYSTEM_ERROR, f"the topic {name} was changed meanwhile: reset it again")
    return None


def _encode(broker_name: str, topic: str, offsets: dict[int, int]) -> Generator[None, None, bytes]:
    """The body that tells the offsets of queues, made of bodies that tell a few of them."""
    found = BytesIO()
    if offsets:
        # A buffer that grows is moved again and again, and leaves gaps in the heap that are as large as it was.
        largest = {MessageQueue(topic, broker_name, max(offsets)): max(offsets.values())}
        entry = len(ResetOffsetBody(offset_table=largest).encode()) - len(_TABLE_BEGINS) - len(_TABLE_ENDS) + len(b",")
        found.seek(len(_TABLE_BEGINS) + len(offsets) * entry + len(_TABLE_ENDS))
        found.write(b" ")
        found.seek(0)
    found.write(_TABLE_BEGINS)
    items = iter(offsets.items())
    while part := dict(islice(items, _QUEUES_PER_STEP)):
        table = {MessageQueue(topic, broker_name, number): offset for number, offset in part.items()}
        if found.tell() > len(_TABLE_BEGINS):
            found.write(b",")
        found.write(ResetOffsetBody(offset_table=table).encode()[len(_TABLE_BEGINS) : -len(_TABLE_ENDS)])
        yield
    found.write(_TABLE_ENDS)
    found.truncate()
    return found.getvalue()


def _encode_for_c(broker_name: str, topic: str, offsets: dict[int, int]) -> Generator[None, None, bytes]:
    """The same for clients that cannot read a map with objects as keys."""
    table = []
    for number, offset in offsets.items():
        table.append(MessageQueueForC(topic=topic, broker_name=broker_name, queue_id=number, offset=offset))
        if number % _QUEUES_PER_STEP == 0:
            yield
    return (yield from encode_steps(ResetOffsetBodyForC(offset_table=table)))


# --- noted by the broker -------------------------------------------------------------------------------


def _positions(
    broker: ResetView, header: ResetOffsetRequestHeader, topic: TopicConfig
) -> Generator[None, None, dict[int, int]]:
    """Where the group shall stand, by queue.

    Raises:
        BrokerError: there is no such group or queue, or the offset lies outside of it.
    """
    if broker.groups.get(header.group) is None:
        remark = f"the consumer group {header.group} does not exist"
        raise BrokerError.for_code(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    if header.queue_id < 0:
        found = {}
        for number in range(topic.read_queue_nums):
            found[number] = _at_time(broker, header, number)
            yield
        return found
    if header.queue_id >= topic.read_queue_nums:
        raise invalid(f"there is no queue {header.queue_id}: {header.topic} has {topic.read_queue_nums} to read")
    if header.offset is None or header.offset == _NO_OFFSET:
        return {header.queue_id: _at_time(broker, header, header.queue_id)}
    low = broker.reads.min_offset(header.topic, header.queue_id)
    high = broker.reads.max_offset(header.topic, header.queue_id)
    if not low <= header.offset <= high:
        remark = f"the offset {header.offset} is not in the queue, which goes from {low} to {high}"
        raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark)
    return {header.queue_id: header.offset}


def _at_time(broker: ResetView, header: ResetOffsetRequestHeader, queue_id: int) -> int:
    """The first offset at or after the time; a negative time is the end of the queue."""
    if header.timestamp < 0:
        return broker.reads.max_offset(header.topic, queue_id)
    return broker.reads.offset_by_time(header.topic, queue_id, header.timestamp)


# --- told to the clients -------------------------------------------------------------------------------


def _tell_clients(
    broker: ResetView, request: RemotingCommand, header: ResetOffsetRequestHeader, topic: TopicConfig
) -> Steps:
    """Send every member the positions: back, and forward too when that is forced."""
    offsets: dict[int, int] = {}
    for queue_id in range(topic.write_queue_nums):
        committed = broker.offsets.query(header.group, header.topic, queue_id)
        if committed == NOT_FOUND:
            remark = f"the consumer group {header.group} has committed nothing on queue {queue_id} of {header.topic}"
            return request.answer(ResponseCode.SYSTEM_ERROR, remark)
        wanted = max(0, _at_time(broker, header, queue_id))
        offsets[queue_id] = wanted if header.is_force or wanted < committed else committed
        yield
    members = broker.consumers.clients(header.group)
    if not members:
        remark = f"no client of the consumer group {header.group} is connected: its offsets cannot be reset"
        return request.answer(ResponseCode.CONSUMER_NOT_ONLINE, remark)
    broker_name = broker.config.broker_name
    body = yield from _encode(broker_name, header.topic, offsets)
    for_c = b""
    if any(member.language is LanguageCode.CPP for member in members):
        for_c = yield from _encode_for_c(broker_name, header.topic, offsets)
    for member in members:
        refusal = _refusal_of_changed(broker, request, topic)
        if refusal is not None:
            return refusal
        if member.version < _V3_0_7:
            return request.answer(ResponseCode.SYSTEM_ERROR, f"the client {member} is too old to be told")
        _tell(member, header, for_c if member.language is LanguageCode.CPP else body)
        yield
    return request.answer(body=body)


def _tell(member: ClientChannel, header: ResetOffsetRequestHeader, body: bytes) -> None:
    told = ResetOffsetRequestHeader(
        group=header.group, topic=header.topic, timestamp=header.timestamp, is_force=header.is_force
    )
    command = RemotingCommand.oneway(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, told.to_ext(), body)
    try:
        cast("Connection", member.channel).send_oneway(command)
    except RocketMQError as exc:
        log.info("the client %s was not notified of its new offsets: %s", member, exc)
