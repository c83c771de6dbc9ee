"""The status and statistics of a push consumer: plain records, made on request, in any thread.

Java's nearest counterpart is ConsumerRunningInfo, see `running_info`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import attrs

from rocketpy.consumer.lock_refusals import LockStatus
from rocketpy.consumer.rates import BrokerPulls, TopicRates
from rocketpy.errors import RocketMQError, ServiceCrashedError
from rocketpy.histogram import Latency
from rocketpy.message import MessageQueue

if TYPE_CHECKING:
    from rocketpy.consumer.pull import QueuePuller
    from rocketpy.consumer.running import RunningConsumer

__all__ = ["PushConsumerStatistics", "PushConsumerStatus", "QueueStatus", "queue_status", "statistics"]


@attrs.frozen(kw_only=True)
class QueueStatus:
    """The state of one queue that a consumer has."""

    held_messages: int
    """Messages pulled and not done yet."""
    held_bytes: int
    span: int
    """Distance between the lowest and the highest offset held."""
    next_offset: int
    """Offset at which the next pull starts."""
    commit_offset: int
    """Offset at which the group would continue if this consumer ended now."""
    last_pull_age: float
    """Seconds since the last pull began."""
    last_consume_age: float
    """Seconds since a message was last consumed, or since this consumer got the queue."""
    paused: str | None
    """Why pulling has paused, None when it has not."""
    listener_age: float | None
    """Seconds that the longest running listener call has taken so far, None when no listener is running."""
    error: RocketMQError | None
    """Why the last pull failed, None when it did not."""


@attrs.frozen(kw_only=True)
class PushConsumerStatus:
    """The state of a push consumer."""

    state: str
    client_id: str
    group: str
    topics: tuple[str, ...]
    """What is subscribed, without the retry topic."""
    balanced: bool
    """Whether the last rebalance succeeded for every topic."""
    queues: Mapping[MessageQueue, QueueStatus]
    """The queues that this consumer has, those of the retry topic included."""
    locks: Mapping[MessageQueue, LockStatus]
    """With `orderly`: the locks that this consumer has or waits for."""
    errors: Mapping[str, RocketMQError]
    """For each topic that cannot be consumed yet, the reason."""
    crash: ServiceCrashedError | None
    """The bug that stopped the consumer, if one did."""


@attrs.frozen(kw_only=True)
class PushConsumerStatistics:
    """What a push consumer has done since it started."""

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
    consumed: int
    failed: int
    """Messages whose listener call failed or took too long."""
    timed_out: int
    sent_back: int
    """Messages sent back to a broker to be retried."""
    sent_as_new: int
    """Those of them that could only be sent back as new messages."""
    dropped: int
    """Messages that failed while broadcasting, which has no retries."""
    retried_here: int
    """Messages that no broker took back, so that this consumer retries them itself."""
    duplicates: int
    """Messages kept from listeners because a copy was already consumed, see `dedupe`; `consumed` counts them too."""
    in_flight: int
    """Messages that listeners have just now."""
    held: int
    """Messages pulled and not done yet, those in flight among them."""
    held_bytes: int
    pulled_per_second: float
    """Messages pulled, over the last minute."""
    consumed_per_second: float
    """Messages that listeners consumed successfully, over the last minute."""
    failed_per_second: float
    """Messages whose listener call failed or took too long, over the last minute."""
    listener: Latency
    """How long listener calls took. Of calls that took less than 2 ms in a row, only the mean is known."""
    topics: Mapping[str, TopicRates]
    """Recent figures for each subscribed topic. Retried messages count for the retry topic, but the time that listeners
    take for them counts for their own topic."""
    brokers: Mapping[str, BrokerPulls]
    """What it has from each broker, by name."""


def queue_status(puller: QueuePuller, now: float, listener_since: float | None) -> QueueStatus:
    """Make the status of one queue, as of `now` on the clock of its consumer. For any thread."""
    queue = puller.process_queue
    held = queue.look()
    return QueueStatus(
        held_messages=held.messages,
        held_bytes=held.size,
        span=held.span,
        next_offset=held.position,
        commit_offset=held.commit_offset,
        last_pull_age=max(0.0, now - queue.last_pull),
        last_consume_age=max(0.0, now - queue.last_consume),
        paused=puller.paused,
        listener_age=None if listener_since is None else max(0.0, now - listener_since),
        error=puller.error,
    )


def statistics(running: RunningConsumer, duplicates: int, topics: Iterable[str]) -> PushConsumerStatistics:
    """Make the statistics. For any thread."""
    pulled, consumed, in_flight = running.parts.counters, running.consume.counters, running.consume.in_flight()
    looked = [(puller.queue.broker_name, puller.process_queue.look()) for puller in running.assignment]
    held = [each for _, each in looked]
    rates = {topic: running.rates.of(topic, in_flight[topic]) for topic in topics}
    return PushConsumerStatistics(
        rebalances=running.rebalance.rounds,
        pulls=pulled.pulls,
        pulled=pulled.messages,
        filtered=pulled.filtered,
        undecodable=pulled.undecodable,
        offset_resets=pulled.resets,
        consumed=consumed.consumed,
        failed=consumed.failed,
        timed_out=consumed.timed_out,
        sent_back=consumed.sent_back,
        sent_as_new=running.send_back.as_new_message,
        dropped=consumed.dropped,
        retried_here=consumed.retried_here,
        duplicates=duplicates,
        in_flight=in_flight.total(),
        held=sum(each.messages for each in held),
        held_bytes=sum(each.size for each in held),
        pulled_per_second=sum(each.pulled_per_second for each in rates.values()),
        consumed_per_second=sum(each.consumed_per_second for each in rates.values()),
        failed_per_second=sum(each.failed_per_second for each in rates.values()),
        listener=running.rates.listener(),
        topics=rates,
        brokers=running.rates.brokers(looked),
    )
