"""The offsets and the lag of groups: GET_CONSUME_STATS and GET_BROKER_CONSUME_STATS. Plays a part of
AdminBrokerProcessor.

The lag of a group in a queue is `brokerOffset` less `consumerOffset`; the messages in flight are `pullOffset` less
`consumerOffset`. An answer may contain a hundred thousand queues, so it is written a few queues at a time, and only the
written text is kept.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

import attrs

from rocketpy.message import MessageQueue
from rocketpy.wire.bodies.stats import ConsumeStats, OffsetWrapper
from rocketpy.wire.headers.admin import GetConsumeStatsInBrokerHeader, GetConsumeStatsRequestHeader
from rocketpy.wire.json_body import members_of
from rocketpy.wire.lenient_json import write_json
from rocketpy_broker_sim.broker.processors.checks import check_group, check_topic, invalid
from rocketpy_broker_sim.broker.tables.offsets import NOT_FOUND
from rocketpy_broker_sim.serving.encoding import append_parts, parts_of
from rocketpy_broker_sim.serving.slices import PAUSE

if TYPE_CHECKING:
    from rocketpy.errors import BrokerError
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.bodies.topics import TopicConfig
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.views import StatsView
    from rocketpy_broker_sim.serving.slices import Steps

__all__ = ["get_all_consume_stats", "get_consume_stats"]

_MOST_TOPICS = 2048
_TOPICS_A_STEP = 256
_TOPIC_SEPARATOR = ";"
_MEMBERS = {each.attribute: each for each in members_of(ConsumeStats)}
_TABLE, _TPS = _MEMBERS["offset_table"], _MEMBERS["consume_tps"]


@attrs.define
class _Totals:
    """The totals of all queues in the answer."""

    diff: int = 0
    in_flight: int = 0


def get_consume_stats(broker: StatsView, connection: Connection, request: RemotingCommand) -> Steps:
    """The offsets of one group in one topic, in some, or in all in which it has committed. A sliced processor.

    Topics that do not exist are left out. So are those to which a connected group does not subscribe, unless the
    request lists them.
    """
    header = GetConsumeStatsRequestHeader.from_ext(request.ext_fields)
    group = check_group(header.consumer_group)
    found = bytearray()
    topics = yield from _topics(broker, header, group)
    yield from _append(broker, found, group, [(topic, topic.read_queue_nums) for topic in topics], _Totals())
    yield PAUSE  # before all of it is copied
    return request.answer(body=bytes(found))


def _topics(
    broker: StatsView, header: GetConsumeStatsRequestHeader, group: str
) -> Generator[None, None, list[TopicConfig]]:
    """The topics that an answer is about."""
    listed = _listed(header)
    names = listed or ([check_topic(header.topic)] if header.topic else broker.offsets.each_topic_of(group))
    found = []
    for part in parts_of(names, _TOPICS_A_STEP):
        for name in part:
            topic = broker.topics.get(name)
            if topic is not None and (listed or broker.consumers.may_consume(group, name)):
                found.append(topic)
        yield
    return found


def _listed(header: GetConsumeStatsRequestHeader) -> list[str]:
    """The topics that a request lists.

    Raises:
        BrokerError: there are too many, or no topic may have such a name.
    """
    text = header.topic_list or ""
    if text.count(_TOPIC_SEPARATOR) > _MOST_TOPICS:  # not split: that alone would take more memory than all else
        raise _too_many(text.count(_TOPIC_SEPARATOR))
    listed = [name for name in text.split(_TOPIC_SEPARATOR) if name.strip()]
    if len(listed) > _MOST_TOPICS:
        raise _too_many(len(listed))
    return [check_topic(name) for name in dict.fromkeys(listed)]


def _too_many(count: int) -> BrokerError:
    return invalid(f"the request lists {count} topics, {_MOST_TOPICS} are allowed: send several requests")


def _append(
    broker: StatsView, found: bytearray, group: str, topics: Sequence[tuple[TopicConfig, int]], totals: _Totals
) -> Generator[None, None, None]:
    """Write the ConsumeStats of a group in some topics, each with its number of queues."""
    tps: float = 0
    for part in parts_of(topics, _TOPICS_A_STEP):
        tps += sum(broker.group_reads.per_second(topic.topic_name, group) for topic, _ in part)
        yield
    found += b'{"consumeTps":%s,"offsetTable":' % write_json(_TPS.write(tps)).encode()
    queues = (_entry(broker, group, topic, number, totals) for topic, count in topics for number in range(count))
    yield from append_parts(found, b"{}", (write_json(_TABLE.write(dict(part))) for part in parts_of(queues)))
    found += b"}"


def _entry(
    broker: StatsView, group: str, topic: TopicConfig, number: int, totals: _Totals
) -> tuple[MessageQueue, OffsetWrapper]:
    name = topic.topic_name
    consumed = max(0, broker.offsets.query(group, name, number))
    pulled = broker.group_reads.position(name, group, number)
    told = OffsetWrapper(
        broker_offset=max(0, broker.reads.max_offset(name, number)),
        consumer_offset=consumed,
        pull_offset=max(consumed, NOT_FOUND if pulled is None else pulled),
        last_timestamp=max(0, broker.reads.store_time(name, number, consumed - 1)) if consumed else 0,
    )
    totals.diff += told.broker_offset - told.consumer_offset
    totals.in_flight += told.pull_offset - told.consumer_offset
    return MessageQueue(name, broker.config.broker_name, number), told


def get_all_consume_stats(broker: StatsView, connection: Connection, request: RemotingCommand) -> Steps:
    """The offsets of all groups in all topics, or only in ordered topics on request. A sliced processor."""
    header = GetConsumeStatsInBrokerHeader.from_ext(request.ext_fields)
    found, totals = bytearray(b'{"brokerAddr":%b,"consumeStatsList":[' % _json(broker.identity.address)), _Totals()
    is_first = True
    for group in list(broker.groups.all()):
        found += b"{%b:[" % _json(group) if is_first else b",{%b:[" % _json(group)
        is_first = False
        yield from _append_topics(broker, found, group, totals, only_ordered=bool(header.is_order))
        found += b"]}"
        yield
    found += b'],"totalDiff":%d,"totalInflightDiff":%d}' % (totals.diff, totals.in_flight)
    yield PAUSE
    return request.answer(body=bytes(found))


def _append_topics(
    broker: StatsView, found: bytearray, group: str, totals: _Totals, *, only_ordered: bool
) -> Generator[None, None, None]:
    separator = b""
    for name in broker.offsets.each_topic_of(group):
        topic = broker.topics.get(name)
        yield
        if topic is None or (only_ordered and not topic.order) or not broker.consumers.may_consume(group, name):
            continue
        found += separator
        separator = b","
        yield from _append(broker, found, group, [(topic, topic.write_queue_nums)], totals)


def _json(text: str) -> bytes:
    return write_json(text).encode()
