"""The offsets and times of the queues of a topic: GET_TOPIC_STATS_INFO and QUERY_CONSUME_TIME_SPAN. Plays a part of
AdminBrokerProcessor.

A topic may have tens of thousands of queues, so the answer is written a few queues at a time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import trio

from rocketpy.message import MessageQueue
from rocketpy.seams import wall_ms
from rocketpy.wire.bodies.stats import QueueTimeSpan, TopicOffset, TopicStatsTable
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.headers.admin import GetTopicStatsInfoRequestHeader
from rocketpy.wire.headers.offset import QueryConsumeTimeSpanRequestHeader
from rocketpy.wire.json_body import members_of
from rocketpy.wire.lenient_json import write_json
from rocketpy_broker_sim.broker.flow import MINUTE
from rocketpy_broker_sim.broker.processors.checks import check_group, check_topic
from rocketpy_broker_sim.serving.encoding import append_parts, parts_of
from rocketpy_broker_sim.serving.slices import PAUSE

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.admin_views import TopicStatsView
    from rocketpy_broker_sim.serving.slices import Steps

__all__ = ["get_consume_time_span", "get_topic_stats"]

_MEMBERS = {each.attribute: each for each in members_of(TopicStatsTable)}
_TABLE, _TPS = _MEMBERS["offset_table"], _MEMBERS["topic_put_tps"]


def get_topic_stats(broker: TopicStatsView, connection: Connection, request: RemotingCommand) -> Steps:
    """The two ends of each queue of a topic, and the messages stored a second. A sliced processor."""
    name = check_topic(GetTopicStatsInfoRequestHeader.from_ext(request.ext_fields).topic)
    topic = broker.topics.get(name)
    if topic is None:
        return request.answer(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
    numbers = range(max(topic.read_queue_nums, topic.write_queue_nums))
    yield from broker.flows.add_steps()
    found = bytearray(b'{"offsetTable":')
    queues = ((MessageQueue(name, broker.config.broker_name, each), _ends(broker, name, each)) for each in numbers)
    yield from append_parts(found, b"{}", (write_json(_TABLE.write(dict(part))) for part in parts_of(queues)))
    found += b',"topicPutTps":%b}' % write_json(_TPS.write(_puts_a_second(broker, name))).encode()
    yield PAUSE  # before all of it is copied
    return request.answer(body=bytes(found))


def _ends(broker: TopicStatsView, topic: str, queue_id: int) -> TopicOffset:
    end = max(0, broker.reads.max_offset(topic, queue_id))
    return TopicOffset(
        min_offset=max(0, broker.reads.min_offset(topic, queue_id)),
        max_offset=end,
        last_update_timestamp=broker.reads.store_time(topic, queue_id, end - 1) if end else 0,
    )


def _puts_a_second(broker: TopicStatsView, topic: str) -> float:
    flow = broker.flows.of_topic(topic, "put")
    if flow is None:
        return 0.0
    amount, seconds = flow.over(MINUTE, trio.current_time())
    return amount.messages / seconds


def get_consume_time_span(broker: TopicStatsView, connection: Connection, request: RemotingCommand) -> Steps:
    """The oldest and newest store time in each queue of a topic, and that of a group. A sliced processor.

    A group that has not committed an offset counts as at the beginning of the queue.
    """
    header = QueryConsumeTimeSpanRequestHeader.from_ext(request.ext_fields)
    name, group = check_topic(header.topic), check_group(header.group)
    topic = broker.topics.get(name)
    if topic is None:
        return request.answer(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
    found = bytearray(b'{"consumeTimeSpanSet":')
    spans = (_span(broker, name, group, number) for number in range(topic.write_queue_nums))
    parts = (write_json([span.to_json() for span in part]) for part in parts_of(spans))
    yield from append_parts(found, b"[]", parts)
    found += b"}"
    yield PAUSE
    return request.answer(body=bytes(found))


def _span(broker: TopicStatsView, topic: str, group: str, queue_id: int) -> QueueTimeSpan:
    reads = broker.reads
    begin, end = reads.min_offset(topic, queue_id), reads.max_offset(topic, queue_id)
    offset = broker.offsets.query(group, topic, queue_id)
    oldest = reads.earliest_store_time(topic, queue_id)
    newest = reads.store_time(topic, queue_id, end - 1)
    consumed = reads.store_time(topic, queue_id, offset - 1) if offset > 0 else oldest
    next_time = reads.store_time(topic, queue_id, max(begin, offset)) if offset < end else -1
    return QueueTimeSpan(
        message_queue=MessageQueue(topic, broker.config.broker_name, queue_id),
        min_time_stamp=oldest,
        max_time_stamp=newest,
        consume_time_stamp=consumed,
        delay_time=max(0, wall_ms() - next_time) if next_time >= 0 else 0,
        min_time_stamp_str=_text(oldest),
        max_time_stamp_str=_text(newest),
        consume_time_stamp_str=_text(consumed),
    )


def _text(timestamp: int) -> str:
    """A time as Java's tools show it, in the time zone of the broker."""
    seconds, millis = divmod(timestamp, 1000)
    return f"{time.strftime('%Y-%m-%d#%H:%M:%S', time.localtime(seconds))}:{millis:03d}"
