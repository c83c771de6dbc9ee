"""What a broker remembers of the consumers that filter by properties: the file consumerFilter.json."""

from __future__ import annotations

from rocketpy.wire.json_body import Body, Int32, body, member

__all__ = ["BloomFilterDataBody", "ConsumerFilterDataBody", "ConsumerFilterWrapper", "FilterDataMapByTopic"]


@body
class BloomFilterDataBody(Body):
    """Which bits stand for a group and a topic in the bit maps of messages."""

    bit_num: Int32 = 0
    bit_pos: list[Int32] | None = None


@body
class ConsumerFilterDataBody(Body):
    """What one group wants of one topic; times in ms since 1970."""

    consumer_group: str | None = None
    topic: str | None = None
    expression: str | None = None
    expression_type: str | None = None
    born_time: int = 0
    dead_time: int = 0
    bloom_filter_data: BloomFilterDataBody | None = None
    client_version: int = 0


@body
class FilterDataMapByTopic(Body):
    """What groups want of one topic."""

    group_filter_data: dict[str, ConsumerFilterDataBody] = member(factory=dict)
    topic: str | None = None


@body
class ConsumerFilterWrapper(Body):
    """What groups want, by topic."""

    filter_data_by_topic: dict[str, FilterDataMapByTopic] = member(factory=dict)
