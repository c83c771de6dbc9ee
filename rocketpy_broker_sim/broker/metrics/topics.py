"""The metrics of topics and queues. Plays a part of RMQMetricsCollector, whose names it uses where there are any."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING

from rocketpy.wire.names import DLQ_PREFIX, RETRY_PREFIX
from rocketpy_broker_sim.broker.metrics.view import MetricsView, flow_samples, messages, per_second, queues_of, size
from rocketpy_broker_sim.metrics.metric import Family, Kind, Metric

if TYPE_CHECKING:
    from rocketpy_broker_sim.metrics.metric import Sample

__all__ = ["TOPIC_METRICS", "topic_families"]

_BROKER_TPS = Metric("rocketmq_broker_tps", "Messages stored per second, over the last minute", ("brokerIP",))
_BROKER_QPS = Metric("rocketmq_broker_qps", "Messages pulled per second, over the last minute", ("brokerIP",))
_TPS = Metric("rocketmq_producer_tps", "Messages stored per second, over the last minute", ("topic",))
_SIZE = Metric("rocketmq_producer_message_size", "Bytes stored per second, over the last minute", ("topic",))
_OFFSET = Metric(
    "rocketmq_producer_offset", "The sum of the offsets after the newest message of each queue", ("topic",)
)
_RETRY_OFFSET = Metric("rocketmq_topic_retry_offset", "The same, for the retry topics of groups", ("topic",))
_DLQ_OFFSET = Metric("rocketmq_topic_dlq_offset", "The same, for the dead-letter topic of a group", ("group",))
_QUEUE_MESSAGES = Metric(
    "rocketmq_queue_messages_total",
    "The offset after the newest message of a queue that has had messages",
    ("topic", "queue"),
    Kind.COUNTER,
)
_QUEUE_MIN = Metric("rocketmq_queue_min_offset", "The offset of the oldest message of a queue", ("topic", "queue"))
_TOPICS = Metric("rocketmq_topics", "Topics, those of the system included")

TOPIC_METRICS = (
    _BROKER_TPS,
    _BROKER_QPS,
    _TPS,
    _SIZE,
    _OFFSET,
    _RETRY_OFFSET,
    _DLQ_OFFSET,
    _QUEUE_MESSAGES,
    _QUEUE_MIN,
    _TOPICS,
)
"""All of these metrics."""


def topic_families(view: MetricsView) -> Iterator[Family]:
    """Make the families."""
    flows = view.flows
    yield _BROKER_TPS.of(_whole(view, "put"))
    yield _BROKER_QPS.of(_whole(view, "get"))
    yield _TPS.of(flow_samples(flows, "put", 1, partial(per_second, value=messages)))
    yield _SIZE.of(flow_samples(flows, "put", 1, partial(per_second, value=size)))
    yield _OFFSET.of(_offsets(view, ""))
    yield _RETRY_OFFSET.of(_offsets(view, RETRY_PREFIX))
    yield _DLQ_OFFSET.of(_dead_letters(view))
    yield _QUEUE_MESSAGES.of(_queues(view, is_max=True))
    yield _QUEUE_MIN.of(_queues(view, is_max=False))
    yield _TOPICS.value(len(view.topics))


def _whole(view: MetricsView, way: str) -> Iterator[Sample | None]:
    yield from view.flows.add_steps()
    yield (view.identity.address,), per_second(view.flows.whole(way))


def _offsets(view: MetricsView, prefix: str) -> Iterator[Sample | None]:
    """The ends of topics with a prefix; without one, of those that have neither."""
    for topic in list(view.topics.all()):
        is_special = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
        if topic.startswith(prefix) if prefix else not is_special:
            end = yield from _end(view, topic)
            yield (topic,), end
        else:
            yield None


def _end(view: MetricsView, topic: str) -> Generator[None, None, int]:
    total = 0
    for queue in queues_of(view, topic):
        if queue is None:
            yield
        else:
            total += max(0, view.reads.max_offset(topic, queue))
    return total


def _dead_letters(view: MetricsView) -> Iterator[Sample | None]:
    for labels in _offsets(view, DLQ_PREFIX):
        yield None if labels is None else ((labels[0][0].removeprefix(DLQ_PREFIX),), labels[1])


def _queues(view: MetricsView, *, is_max: bool) -> Iterator[Sample | None]:
    reads = view.reads
    for topic in list(view.topics.all()):
        yield None
        for queue in queues_of(view, topic):
            end = 0 if queue is None else reads.max_offset(topic, queue)
            if queue is None:
                yield None
            elif end > 0:
                yield (topic, str(queue)), end if is_max else max(0, reads.min_offset(topic, queue))
