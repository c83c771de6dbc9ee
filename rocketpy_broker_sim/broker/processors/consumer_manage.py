"""Requests of consumers about their group: its members and its offsets. Plays ConsumerManageProcessor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.wire.bodies.groups import ClientConnection, ConsumerConnection
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.fields import HeaderFieldError
from rocketpy.wire.headers.group import (
    GetConsumerConnectionListRequestHeader,
    GetConsumerListByGroupRequestHeader,
)
from rocketpy.wire.headers.offset import QueryConsumerOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from rocketpy_broker_sim.broker.processors.checks import check_group, check_queue_id, check_topic, invalid
from rocketpy_broker_sim.broker.tables.offsets import NOT_FOUND
from rocketpy_broker_sim.serving.encoding import encode_steps

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.bodies.topics import TopicConfig
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.views import PositionView
    from rocketpy_broker_sim.serving.slices import Steps

__all__ = ["get_consumer_connections", "get_consumer_list", "query_consumer_offset", "update_consumer_offset"]


def get_consumer_list(broker: PositionView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """Answer with the client ids of a group's members."""
    header = GetConsumerListByGroupRequestHeader.from_ext(request.ext_fields)
    group = check_group(header.consumer_group)
    body = broker.consumers.encoded_ids(group)
    if body is None:
        return request.answer(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}")
    return request.answer(body=body)


def get_consumer_connections(broker: PositionView, connection: Connection, request: RemotingCommand) -> Steps:
    """Answer with a group's clients, their connections, and the group's subscriptions. A sliced processor."""
    name = check_group(GetConsumerConnectionListRequestHeader.from_ext(request.ext_fields).consumer_group)
    group = broker.consumers.group(name)
    if group is None:
        return request.answer(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
    found = ConsumerConnection(
        subscription_table=dict(group.subscriptions),
        consume_type=group.consume_type,
        message_model=group.message_model,
        consume_from_where=group.consume_from_where,
    )
    for client in list(group.clients.values()):
        address = client.channel.address
        told = ClientConnection(
            client_id=client.client_id, client_addr=address, language=client.language, version=client.version
        )
        found.connection_set.append(told)
        yield
    return request.answer(body=(yield from encode_steps(found)))


def query_consumer_offset(broker: PositionView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """Answer with the committed offset of a group in a queue.

    For a group that never committed, the answer is 0 if the queue begins there and its first message is still in
    memory, so that the group misses nothing of a young topic; unless the client sets `setZeroIfNotFound` to false.
    """
    header = QueryConsumerOffsetRequestHeader.from_ext(request.ext_fields)
    group, topic, queue_id = check_group(header.consumer_group), check_topic(header.topic), header.queue_id
    offset = broker.offsets.query(group, topic, queue_id)
    if offset != NOT_FOUND:
        return request.answer(ext_fields={"offset": str(offset)})
    if header.set_zero_if_not_found is False:
        remark = "Not found, do not set to zero, maybe this group boot first"
        return request.answer(ResponseCode.QUERY_NOT_FOUND, remark)
    if broker.reads.min_offset(topic, queue_id) <= 0 and broker.reads.is_in_memory(topic, queue_id, 0):
        return request.answer(ext_fields={"offset": "0"})
    return request.answer(ResponseCode.QUERY_NOT_FOUND, "Not found, maybe this group consumer boot first")


def update_consumer_offset(broker: PositionView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """Commit the offset of a group in a queue. A commit creates neither the group nor the topic."""
    try:
        header = UpdateConsumerOffsetRequestHeader.from_ext(request.ext_fields)
    except HeaderFieldError as exc:
        if exc.field in ("queueId", "commitOffset"):
            return request.answer(ResponseCode.INVALID_PARAMETER, str(exc))
        raise
    group, name = check_group(header.consumer_group), check_topic(header.topic)
    if group not in broker.groups:
        return request.answer(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
    topic = broker.topics.get(name)
    if topic is None:
        return request.answer(ResponseCode.TOPIC_NOT_EXIST, f"Topic {name} not exist!")
    _check_position(broker, topic, header.queue_id, header.commit_offset)
    offsets = broker.offsets
    if broker.config.use_server_side_reset_offset and offsets.has_reset(group, name, header.queue_id):
        # No client has taken up the reset yet, so this commit was made before it.
        return request.answer(ResponseCode.SUCCESS, "Offset has been previously reset")
    if offsets.is_lost(group, name, header.queue_id, header.commit_offset):
        remark = (
            f"the offset {header.commit_offset} is beyond the end that the queue had when the broker was started: the "
            "group must pull before it commits"
        )
        return request.answer(ResponseCode.SYSTEM_ERROR, remark)
    offsets.commit(group, name, header.queue_id, header.commit_offset)
    return request.answer()


def _check_position(broker: PositionView, topic: TopicConfig, queue_id: int, offset: int) -> None:
    """Refuse a commit that is impossible.

    Raises:
        BrokerError: the offset is negative, or the topic does not have the queue and never had it.
    """
    check_queue_id(queue_id)
    if offset < 0:
        raise invalid(f"the offset {offset} is negative")
    queues = max(topic.read_queue_nums, topic.write_queue_nums)
    if queue_id >= queues and broker.reads.max_offset(topic.topic_name, queue_id) == 0:
        raise invalid(f"the queue {queue_id} does not exist: {topic.topic_name} has {queues}")
