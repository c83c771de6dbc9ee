"""Figures about topics, groups and brokers."""

from __future__ import annotations

from rocketpy.message import MessageQueue
from rocketpy.wire.json_body import Body, body, member

__all__ = [
    "BrokerStatsData",
    "BrokerStatsItem",
    "ConsumeStats",
    "ConsumeStatsList",
    "OffsetWrapper",
    "QueryConsumeTimeSpanBody",
    "QueueTimeSpan",
    "TopicOffset",
    "TopicStatsTable",
]


@body
class TopicOffset(Body):
    """The two ends of a queue, and when it was written last."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


@body
class TopicStatsTable(Body):
    """The queues of a topic on a broker."""

    offset_table: dict[MessageQueue, TopicOffset] = member(factory=dict)
    topic_put_tps: float = 0.0


@body
class OffsetWrapper(Body):
    """The offsets of a queue, and those of a group in it."""

    broker_offset: int = 0
    consumer_offset: int = 0
    pull_offset: int = 0
    last_timestamp: int = 0


@body
class ConsumeStats(Body):
    """The offsets of a group in its queues."""

    offset_table: dict[MessageQueue, OffsetWrapper] = member(factory=dict)
    consume_tps: float = 0.0


@body
class ConsumeStatsList(Body):
    """The offsets of all groups of a broker: one entry for each group, and in it one for each topic."""

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = member(factory=list)
    broker_addr: str | None = None
    total_diff: int = 0
    total_inflight_diff: int = 0


@body
class QueueTimeSpan(Body):
    """Between which store times a queue reaches, and where a group is; each also as text."""

    message_queue: MessageQueue
    min_time_stamp: int = 0
    max_time_stamp: int = 0
    consume_time_stamp: int = 0
    delay_time: int = 0
    min_time_stamp_str: str | None = None
    max_time_stamp_str: str | None = None
    consume_time_stamp_str: str | None = None


@body
class QueryConsumeTimeSpanBody(Body):
    """The spans of all queues of a topic."""

    consume_time_span_set: list[QueueTimeSpan] = member(factory=list)


@body
class BrokerStatsItem(Body):
    """One figure over a span of time."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


@body
class BrokerStatsData(Body):
    """One figure over the last minute, hour and day."""

    stats_minute: BrokerStatsItem | None = None
    stats_hour: BrokerStatsItem | None = None
    stats_day: BrokerStatsItem | None = None
