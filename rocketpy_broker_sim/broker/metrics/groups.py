"""The metrics of consumer and producer groups. Plays a part of RMQMetricsCollector, whose names it uses where there are
any.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING

import trio

from rocketpy.seams import wall_ms
from rocketpy.wire.enums import MessageModel
from rocketpy.wire.names import RETRY_PREFIX
from rocketpy_broker_sim.broker.flow import MINUTE
from rocketpy_broker_sim.broker.metrics.view import MetricsView, flow_samples, messages, per_second, queues_of, size
from rocketpy_broker_sim.metrics.metric import Family, Metric

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.flow import Flow
    from rocketpy_broker_sim.metrics.metric import Sample

__all__ = ["GROUP_METRICS", "group_families"]

_PAIR = ("topic", "group")
_DIFF = ("group", "topic", "countOfOnlineConsumers", "msgModel")
_CLUSTERING = "1"
"""What the exporter shows for groups that share messages; only they have an offset here."""
_NEVER = 2**63 - 1

_Read = Callable[[MetricsView, str, str], Generator[None, None, float]]

_TPS = Metric("rocketmq_consumer_tps", "Messages pulled per second, over the last minute", _PAIR)
_SIZE = Metric("rocketmq_consumer_message_size", "Bytes pulled per second, over the last minute", _PAIR)
_OFFSET = Metric("rocketmq_consumer_offset", "The sum of the offsets that the group has committed", _PAIR)
_BACK = Metric("rocketmq_send_back_nums", "Messages sent back to be retried, over the last minute", _PAIR)
_LATENCY = Metric(
    "rocketmq_group_get_latency_by_storetime",
    "Age in milliseconds of the oldest message that the group has not consumed; 0 if there is none",
    _PAIR,
)
_GROUP_DIFF = Metric("rocketmq_group_diff", "Messages that the group has not consumed", _DIFF)
_RETRY_DIFF = Metric("rocketmq_group_retrydiff", "The same, for the retry topic of the group", _DIFF)
_COUNT = Metric("rocketmq_group_count", "Clients in the consumer group", ("group",))
_PRODUCERS = Metric("rocketmq_producer_count", "Clients in the producer group", ("group",))
_QUEUE_OFFSET = Metric(
    "rocketmq_consumer_queue_offset", "The offset that the group has committed", ("topic", "group", "queue")
)
_QUEUE_LAG = Metric(
    "rocketmq_consumer_queue_lag_messages", "Messages that the group has not consumed", ("topic", "group", "queue")
)
_QUEUE_TPS = Metric(
    "rocketmq_consumer_queue_tps", "Messages pulled per second, over the last minute", ("topic", "queue", "group")
)
_GROUPS = Metric("rocketmq_consumer_groups", "Consumer groups, whether they have clients or not")

GROUP_METRICS = (
    _TPS,
    _SIZE,
    _OFFSET,
    _BACK,
    _LATENCY,
    _GROUP_DIFF,
    _RETRY_DIFF,
    _COUNT,
    _PRODUCERS,
    _QUEUE_OFFSET,
    _QUEUE_LAG,
    _QUEUE_TPS,
    _GROUPS,
)
"""All of these metrics."""


def group_families(view: MetricsView) -> Iterator[Family]:
    """Make the families."""
    flows = view.flows
    yield _TPS.of(flow_samples(flows, "get", 2, partial(per_second, value=messages)))
    yield _SIZE.of(flow_samples(flows, "get", 2, partial(per_second, value=size)))
    yield _QUEUE_TPS.of(flow_samples(flows, "get", 3, partial(per_second, value=messages)))
    yield _BACK.of(flow_samples(flows, "back", 2, _in_minute))
    yield _OFFSET.of(_pairs(view, _committed))
    yield _LATENCY.of(_pairs(view, _latency))
    yield _GROUP_DIFF.of(_diffs(view, is_retry=False))
    yield _RETRY_DIFF.of(_diffs(view, is_retry=True))
    yield _QUEUE_OFFSET.of(_queues(view, lambda offset, end: offset))
    yield _QUEUE_LAG.of(_queues(view, lambda offset, end: max(0, end - offset)))
    yield _COUNT.of(((group.name,), len(group.clients)) for group in view.consumers.groups())
    yield _PRODUCERS.of(((group,), len(view.producers.clients(group))) for group in view.producers.groups())
    yield _GROUPS.value(len(view.groups.all()))


def _in_minute(flow: Flow) -> float:
    return flow.over(MINUTE, trio.current_time())[0].messages


# --- groups in topics ----------------------------------------------------------------------------------


def _each(view: MetricsView) -> Iterator[tuple[str, str] | None]:
    """Topics with the groups that consume them, as GET_CONSUME_STATS knows them; None between two groups."""
    for group in view.offsets.groups():
        yield None
        for topic in view.offsets.each_topic_of(group):
            if topic in view.topics and view.consumers.may_consume(group, topic):
                yield topic, group


def _pairs(view: MetricsView, read: _Read) -> Iterator[Sample | None]:
    for pair in _each(view):
        if pair is None:
            yield None
        else:
            value = yield from read(view, *pair)
            yield pair, value


def _offsets(view: MetricsView, topic: str, group: str) -> Iterator[tuple[int, int, int] | None]:
    """Queue, committed offset and end of each queue of a topic; None is a step between two."""
    for queue in queues_of(view, topic):
        if queue is None:
            yield None
        else:
            yield queue, max(0, view.offsets.query(group, topic, queue)), max(0, view.reads.max_offset(topic, queue))


def _committed(view: MetricsView, topic: str, group: str) -> Generator[None, None, int]:
    total = 0
    for each in _offsets(view, topic, group):
        if each is None:
            yield
        else:
            total += each[1]
    return total


def _lag(view: MetricsView, topic: str, group: str) -> Generator[None, None, int]:
    total = 0
    for each in _offsets(view, topic, group):
        if each is None:
            yield
        else:
            total += max(0, each[2] - each[1])
    return total


def _latency(view: MetricsView, topic: str, group: str) -> Generator[None, None, float]:
    oldest = _NEVER
    for each in _offsets(view, topic, group):
        if each is None:
            yield
            continue
        queue, offset, end = each
        if offset < end:
            stored = view.reads.store_time(topic, queue, max(offset, view.reads.min_offset(topic, queue)))
            yield  # it was read from the disk
            oldest = min(oldest, stored) if stored >= 0 else oldest
    return 0 if oldest == _NEVER else max(0, wall_ms() - oldest)


def _diffs(view: MetricsView, *, is_retry: bool) -> Iterator[Sample | None]:
    for pair in _each(view):
        if pair is None or pair[0].startswith(RETRY_PREFIX) != is_retry:
            yield None
            continue
        topic, group = pair
        known = view.consumers.group(group)
        if known is None or known.message_model is not MessageModel.BROADCASTING:
            members = str(len(known.clients) if known else 0)
            lag = yield from _lag(view, topic, group)
            yield (group, topic, members, _CLUSTERING), lag


def _queues(view: MetricsView, read: Callable[[int, int], float]) -> Iterator[Sample | None]:
    for pair in _each(view):
        for each in () if pair is None else _offsets(view, *pair):
            # Most queues of most topics have never had a message.
            if each is None or not each[2]:
                yield None
            elif pair is not None:
                yield (*pair, str(each[0])), read(each[1], each[2])
        yield None
