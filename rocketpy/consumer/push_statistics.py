"""The statistics of a push consumer: plain records, made on request, in any thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

import attrs

from rocketpy.consumer.rates import BrokerPulls, TopicRates
from rocketpy.histogram import Latency
from rocketpy.reprs import Short

if TYPE_CHECKING:
    from rocketpy.consumer.running import RunningConsumer

__all__ = ["PushConsumerStatistics", "statistics"]


@attrs.frozen(kw_only=True, repr=False)
class PushConsumerStatistics(Short):
    """What a push consumer has done since it started."""

    _shown_first: ClassVar[tuple[str, ...]] = ("consumed", "failed", "held", "timed_out", "consumed_per_second")

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


def statistics(running: RunningConsumer, duplicates: int, topics: Iterable[str]) -> PushConsumerStatistics:
    """Make the statistics. Thread-safe."""
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
