"""The status and statistics of a lite pull consumer: plain records, made on request, in any thread.

Java's nearest counterpart is ConsumerRunningInfo, see `running_info`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

import attrs

from rocketpy.consumer.rates import BrokerPulls, TopicRates
from rocketpy.consumer.status import QueueStatus, queue_status
from rocketpy.errors import RocketMQError, ServiceCrashedError
from rocketpy.message import MessageQueue
from rocketpy.reprs import Short

if TYPE_CHECKING:
    from rocketpy.consumer.lite.running import RunningLitePull

__all__ = ["LitePullConsumerStatistics", "LitePullConsumerStatus", "queue_statuses", "statistics"]


@attrs.frozen(kw_only=True, repr=False)
class LitePullConsumerStatus(Short):
    """The state of a lite pull consumer."""

    _shown_first: ClassVar[tuple[str, ...]] = ("group", "state", "crash", "errors", "balanced", "topics", "queues")

    state: str
    client_id: str
    group: str
    topics: tuple[str, ...]
    """The topics that are subscribed, or whose queues are assigned."""
    balanced: bool
    """Whether this consumer has every queue that it should have."""
    queues: Mapping[MessageQueue, QueueStatus]
    """The queues that this consumer has. Messages held there have not been handed out yet."""
    errors: Mapping[str, RocketMQError]
    """For each topic that cannot be consumed yet, the reason."""
    crash: ServiceCrashedError | None
    """The bug that stopped the consumer, if one did."""


@attrs.frozen(kw_only=True, repr=False)
class LitePullConsumerStatistics(Short):
    """What a lite pull consumer has done since it started."""

    _shown_first: ClassVar[tuple[str, ...]] = (
        "handed_out",
        "acknowledged",
        "held",
        "pulled_per_second",
        "consumed_per_second",
    )

    rebalances: int
    pulls: int
    pulled: int
    """Messages pulled, without those in `filtered`."""
    filtered: int
    """Messages pulled and discarded, because they have another tag with the same hash."""
    undecodable: int
    """Pull answers that contained a damaged message."""
    offset_resets: int
    """How often a broker moved a queue to another offset."""
    handed_out: int
    """Messages returned by polls. A blocking or asyncio loop over messages fetches some ahead; these count at once, and
    are subtracted again if they are given back."""
    acknowledged: int
    """Messages acknowledged with `ack`, each counted once."""
    in_flight: int
    """Messages handed out and not done yet, that is neither acknowledged nor followed by another poll."""
    held: int
    """Messages pulled and not handed out yet."""
    held_bytes: int
    pulled_per_second: float
    """Messages pulled, over the last minute."""
    consumed_per_second: float
    """Messages handed out, over the last minute."""
    topics: Mapping[str, TopicRates]
    """Recent figures for each topic."""
    brokers: Mapping[str, BrokerPulls]
    """What it has from each broker, by name."""


def statistics(running: RunningLitePull, topics: Iterable[str]) -> LitePullConsumerStatistics:
    """Make the statistics. Thread-safe."""
    pulled, handed_out, in_flight = running.parts.counters, running.cache.counters, running.cache.in_flight()
    looked = [(puller.queue.broker_name, puller.process_queue.look()) for puller in running.assignment]
    held = [each for _, each in looked]
    rates = {topic: running.rates.of(topic, in_flight[topic]) for topic in topics}
    return LitePullConsumerStatistics(
        rebalances=running.rebalance.rounds,
        pulls=pulled.pulls,
        pulled=pulled.messages,
        filtered=pulled.filtered,
        undecodable=pulled.undecodable,
        offset_resets=pulled.resets,
        handed_out=handed_out.handed_out,
        acknowledged=handed_out.acknowledged,
        in_flight=in_flight.total(),
        held=sum(each.messages for each in held),
        held_bytes=sum(each.size for each in held),
        pulled_per_second=sum(each.pulled_per_second for each in rates.values()),
        consumed_per_second=sum(each.consumed_per_second for each in rates.values()),
        topics=rates,
        brokers=running.rates.brokers(looked),
    )


def queue_statuses(running: RunningLitePull | None) -> dict[MessageQueue, QueueStatus]:
    """The status of each queue that the consumer has. Thread-safe."""
    if running is None:
        return {}
    now = running.now()
    found = {}
    for puller in running.assignment:
        status = queue_status(puller, now, None)
        noted = running.offsets.memory(puller.queue)
        found[puller.queue] = status if noted is None else attrs.evolve(status, commit_offset=noted)
    return found
