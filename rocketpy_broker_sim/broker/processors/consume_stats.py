"""How far groups have come: GET_CONSUME_STATS and GET_BROKER_CONSUME_STATS. Plays AdminBrokerProcessor's part of it.

What a group has yet to consume of a queue is `brokerOffset` less `consumerOffset`; what its clients have pulled of that
and not yet committed is `pullOffset` less `consumerOffset`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from rocketpy.message import MessageQueue
from rocketpy.wire.bodies.stats import ConsumeStats, OffsetWrapper
from rocketpy.wire.headers.admin import GetConsumeStatsInBrokerHeader, GetConsumeStatsRequestHeader
from rocketpy.wire.lenient_json import write_json
from rocketpy_broker_sim.broker.processors.checks import check_group, check_topic, invalid
from rocketpy_broker_sim.broker.tables.offsets import NOT_FOUND
from rocketpy_broker_sim.serving.encoding import MOST_ENCODED, encode_steps

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.bodies.topics import TopicConfig
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.views import StatsView
    from rocketpy_broker_sim.serving.slices import Steps

__all__ = ["get_all_consume_stats", "get_consume_stats"]

_MOST_TOPICS = 2048
_TOPIC_SEPARATOR = ";"


def get_consume_stats(broker: StatsView, connection: Connection, request: RemotingCommand) -> Steps:
    """How far one group has come, on one topic, on some, or on all that it has committed on. A sliced processor.

    Topics that do not exist are left out, and so are those that the group does not subscribe while it is connected,
    unless the request lists them.
    """
    header = GetConsumeStatsRequestHeader.from_ext(request.ext_fields)
    group = check_group(header.consumer_group)
    found = ConsumeStats()
    for name in _topics(broker, header, group):
        topic = broker.topics.get(name)
        if topic is not None:
            yield from _add(broker, found, group, topic, topic.read_queue_nums)
        yield
    return request.answer(body=(yield from encode_steps(found)))


def _topics(broker: StatsView, header: GetConsumeStatsRequestHeader, group: str) -> list[str]:
    listed = [name for name in (header.topic_list or "").split(_TOPIC_SEPARATOR) if name.strip()]
    if len(listed) > _MOST_TOPICS:
        raise invalid(f"the request lists {len(listed)} topics, {_MOST_TOPICS} are allowed: send several requests")
    if listed:
        return [check_topic(name) for name in dict.fromkeys(listed)]
    names = [check_topic(header.topic)] if header.topic else sorted(broker.offsets.topics_of(group))
    return [name for name in names if _may_be_consumed(broker, group, name)]


def _may_be_consumed(broker: StatsView, group: str, topic: str) -> bool:
    """Whether the group subscribes the topic, or nobody knows because no member is connected."""
    members = broker.consumers.group(group)
    return members is None or not members.subscriptions or topic in members.subscriptions


def _add(
    broker: StatsView, found: ConsumeStats, group: str, topic: TopicConfig, queues: int
) -> Generator[None, None, None]:
    name, reads = topic.topic_name, broker.reads
    for number in range(queues):
        consumed = max(0, broker.offsets.query(group, name, number))
        pulled = reads.position(name, group, number)
        found.offset_table[MessageQueue(name, broker.config.broker_name, number)] = OffsetWrapper(
            broker_offset=max(0, broker.store.max_offset(name, number)),
            consumer_offset=consumed,
            pull_offset=max(consumed, NOT_FOUND if pulled is None else pulled),
            last_timestamp=max(0, broker.store.store_time(name, number, consumed - 1)) if consumed else 0,
        )
        yield
    found.consume_tps += reads.per_second(name, group)


def get_all_consume_stats(broker: StatsView, connection: Connection, request: RemotingCommand) -> Steps:
    """How far every group has come on every topic, those in order only when that is asked for. A sliced processor."""
    header = GetConsumeStatsInBrokerHeader.from_ext(request.ext_fields)
    parts: list[bytes] = []
    size, total, in_flight = 0, 0, 0
    for group in list(broker.groups.all()):
        of_group: list[bytes] = []
        for name in sorted(broker.offsets.topics_of(group)):
            topic = broker.topics.get(name)
            yield
            if topic is None or (header.is_order and not topic.order) or not _may_be_consumed(broker, group, name):
                continue
            stats = ConsumeStats()
            yield from _add(broker, stats, group, topic, topic.write_queue_nums)
            for each in stats.offset_table.values():
                total += each.broker_offset - each.consumer_offset
                in_flight += each.pull_offset - each.consumer_offset
            of_group.append((yield from encode_steps(stats)))
            size += len(of_group[-1])
            if size > MOST_ENCODED:
                raise invalid(f"the answer would have more than {MOST_ENCODED} bytes: ask for single groups")
        parts.append(b"{" + write_json(group).encode() + b":[" + b",".join(of_group) + b"]}")
        yield
    address = write_json(broker.identity.address).encode()
    body = b'{"brokerAddr":%b,"consumeStatsList":[%b],"totalDiff":%d,"totalInflightDiff":%d}'
    return request.answer(body=body % (address, b",".join(parts), total, in_flight))
