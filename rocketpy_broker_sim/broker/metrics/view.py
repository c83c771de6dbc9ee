"""What the metrics of topics and groups may reach of a broker, and the rates that are read from flows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import trio

from rocketpy_broker_sim.broker.flow import MINUTE, Amount

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.flow import Flow
    from rocketpy_broker_sim.broker.flows import Flows
    from rocketpy_broker_sim.broker.identity import Identity
    from rocketpy_broker_sim.broker.tables.consumers import ConsumerTable
    from rocketpy_broker_sim.broker.tables.offsets import ConsumerOffsetTable
    from rocketpy_broker_sim.broker.tables.producers import ProducerTable
    from rocketpy_broker_sim.broker.tables.subscriptions import SubscriptionGroupTable
    from rocketpy_broker_sim.broker.tables.topics import TopicTable
    from rocketpy_broker_sim.metrics.metric import Sample
    from rocketpy_broker_sim.store.message_reads import MessageReads

__all__ = ["MetricsView", "flow_samples", "messages", "per_second", "queues_of", "size"]

_QUEUES_A_STEP = 64


class MetricsView(NamedTuple):
    """What a scrape reads.

    Attributes:
        identity: Who the broker is.
        reads: Messages, offsets and times, for reading.
        topics: The topics.
        groups: The consumer groups.
        offsets: Where groups stand.
        consumers: The members of consumer groups.
        producers: The members of producer groups.
        flows: What came and went lately, by topic, queue and group.
    """

    identity: Identity
    reads: MessageReads
    topics: TopicTable
    groups: SubscriptionGroupTable
    offsets: ConsumerOffsetTable
    consumers: ConsumerTable
    producers: ProducerTable
    flows: Flows


def queues_of(view: MetricsView, topic: str) -> Iterator[int | None]:
    """The numbers of the queues of a topic that has had messages; None is a step between two.

    There may be tens of thousands of them.
    """
    known = view.topics.get(topic) if view.reads.has_queues(topic) else None  # most topics of many have none
    for number in range(0 if known is None else max(known.read_queue_nums, known.write_queue_nums)):
        if number % _QUEUES_A_STEP == _QUEUES_A_STEP - 1:
            yield None
        yield number


def messages(amount: Amount) -> int:
    """The number of messages."""
    return amount.messages


def size(amount: Amount) -> int:
    """The bytes of their records."""
    return amount.size


def per_second(flow: Flow | None, value: Callable[[Amount], int] = messages) -> float:
    """The rate of a flow over the last minute; 0 without one."""
    if flow is None:
        return 0.0
    amount, seconds = flow.over(MINUTE, trio.current_time())
    return value(amount) / seconds


def flow_samples(flows: Flows, way: str, length: int, read: Callable[[Flow], float]) -> Iterator[Sample | None]:
    """A sample for each flow in one direction, with the topic and the rest of its key as labels.

    Args:
        flows: the flows.
        way: "put", "get" or "back".
        length: the length of the keys that are wanted, the direction included.
        read: reads the value of a flow.
    """
    for topic in flows.topics():
        yield None
        for key, flow in flows.of(topic):
            if key[0] == way and len(key) == length:
                yield (topic, *(str(part) for part in key[1:])), read(flow)
