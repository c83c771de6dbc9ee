"""The statistics of a pull consumer: a plain record, made on request in any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from rocketpy.consumer.rates import BrokerPulls, ConsumerRates, TopicRates
from rocketpy.errors import RocketMQError
from rocketpy.reprs import Short

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue
    from rocketpy.results import PullResult

__all__ = ["PullConsumerStatistics", "PullMeter"]


@attrs.frozen(kw_only=True, repr=False)
class PullConsumerStatistics(Short):
    """What a pull consumer has done since it started."""

    pulls: int
    """Pulls that a broker has answered, with or without messages."""
    failed: int
    """Pulls that failed. Cancelled pulls and those with invalid arguments are not counted."""
    pulled: int
    """Messages pulled, without those that the client filtered out."""
    in_flight: int
    """Pulls that have begun and not ended, including those that a broker holds until messages arrive."""
    pulled_per_second: float
    """Messages pulled per second, over the last minute."""
    topics: Mapping[str, TopicRates]
    """Recent figures for each topic that was pulled from."""
    brokers: Mapping[str, BrokerPulls]
    """Figures for each broker, by name. A pull consumer has no queues and holds no messages, so those figures are 0."""


class PullMeter:
    """Counts the pulls of one consumer. They end in the trio thread; any thread may read.

    Args:
        clock: returns the time of the consumer's loop, in seconds, from any thread.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rates = ConsumerRates(clock)
        self._pulls = self._failed = self._pulled = self._in_flight = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count a pull as in flight during the block, and as failed if it fails."""
        self._in_flight += 1
        try:
            yield
        except RocketMQError:
            self._failed += 1
            raise
        finally:
            self._in_flight -= 1

    def note(self, queue: MessageQueue, result: PullResult, began: float) -> None:
        """Count an answered pull, which began at this time of the clock."""
        self._pulls += 1
        if result.messages:
            self._pulled += len(result.messages)
            self._rates.note_pull(queue.topic, queue.broker_name, len(result.messages), self._clock() - began)

    def statistics(self) -> PullConsumerStatistics:
        """Return the statistics. Thread-safe."""
        topics = self._rates.topics()
        return PullConsumerStatistics(
            pulls=self._pulls,
            failed=self._failed,
            pulled=self._pulled,
            in_flight=self._in_flight,
            pulled_per_second=sum(each.pulled_per_second for each in topics.values()),
            topics=topics,
            brokers=self._rates.brokers(()),
        )
