"""Rates: how much a consumer pulls and consumes of each topic and from each broker, and how long it takes. Pure.

Messages are counted in the trio thread, once for each batch and not one by one; any thread may read. Plays the part of
ConsumerStatsManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import attrs

from rocketpy.histogram import Histogram, Latency, latency_of
from rocketpy.rates import Rate
from rocketpy.reprs import Short
from rocketpy.wire.bodies.running import ConsumeStatus

if TYPE_CHECKING:
    from rocketpy.consumer.process_queue import Held

__all__ = ["BrokerPulls", "ConsumerRates", "TopicRates"]

T = TypeVar("T")

MOST_TOPICS = 1024
"""How many topics are remembered, and how many brokers; the oldest is forgotten first."""


@attrs.frozen(kw_only=True, repr=False)
class TopicRates(Short):
    """Recent figures for one topic of a consumer, over the last minute unless they say otherwise.

    In a lite pull consumer, messages that polls hand out count as consumed; failures and listener times stay 0.
    """

    pulled_per_second: float = 0.0
    """Messages pulled."""
    pull_seconds: float = 0.0
    """Mean duration of pulls that returned messages, the time that a broker held them included."""
    consumed_per_second: float = 0.0
    """Messages that listeners consumed successfully."""
    failed_per_second: float = 0.0
    """Messages whose listener call failed or took too long."""
    consume_seconds: float = 0.0
    """Mean duration of listener calls; over the last hour if there was none in the last minute."""
    failed_in_hour: int = 0
    """Messages whose listener call failed or took too long in the last hour."""
    listener: Latency = attrs.Factory(Latency)
    """How long listener calls took. Of calls that took less than 2 ms in a row, only the mean is known."""
    in_flight: int = 0
    """Messages that a listener has just now; in a lite pull consumer, that were handed out and are not done yet."""

    def as_status(self) -> ConsumeStatus:
        """The body that travels to brokers, with durations in ms."""
        return ConsumeStatus(
            pull_rt=self.pull_seconds * 1000,
            pull_tps=self.pulled_per_second,
            consume_rt=self.consume_seconds * 1000,
            consume_ok_tps=self.consumed_per_second,
            consume_failed_tps=self.failed_per_second,
            consume_failed_msgs=self.failed_in_hour,
        )


@attrs.frozen(kw_only=True, repr=False)
class BrokerPulls(Short):
    """What a consumer has from one broker."""

    queues: int = 0
    """Its queues that the consumer has."""
    held: int = 0
    """Messages pulled from it and not done yet; in a lite pull consumer, not handed out yet."""
    held_bytes: int = 0
    pulled: int = 0
    """Messages pulled since the consumer started, without those that were filtered here."""
    pulled_per_second: float = 0.0
    """The same, over the last minute."""
    latency: Latency = attrs.Factory(Latency)
    """How long pulls that returned messages took in the last minute, the time that the broker held them included."""


class _Topic:
    __slots__ = ("called", "consumed", "failed", "listener", "pull_times", "pulled")

    def __init__(self, now: float) -> None:
        self.pulled, self.pull_times, self.consumed, self.failed, self.called = (Rate(now) for _ in range(5))
        self.listener = Histogram()


class _Broker:
    __slots__ = ("latency", "messages", "pulled")

    def __init__(self, now: float) -> None:
        self.messages, self.pulled, self.latency = 0, Rate(now), Histogram()


class ConsumerRates:
    """The rates of one consumer's topics and brokers.

    Args:
        clock: the time of the consumer's loop, in seconds; for any thread.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._topics: dict[str, _Topic] = {}
        self._brokers: dict[str, _Broker] = {}

    def note_pull(self, topic: str, broker_name: str, messages: int, seconds: float) -> None:
        """Count a pull that returned `messages` messages after `seconds`."""
        found, now = self._topic(topic), self._clock()
        found.pulled.add(now, messages)
        found.pull_times.add(now, seconds)
        broker = self._brokers.get(broker_name)
        if broker is None:
            broker = _one_more(self._brokers, broker_name, _Broker(now))
        broker.messages += messages
        broker.pulled.add(now, messages)
        broker.latency.add_equal(now, seconds, 1)

    def note_consumed(self, topic: str, messages: int) -> None:
        """Count messages that listeners consumed successfully."""
        self._topic(topic).consumed.add(self._clock(), messages)

    def note_failed(self, topic: str, messages: int) -> None:
        """Count messages whose listener call failed or took too long."""
        self._topic(topic).failed.add(self._clock(), messages)

    def note_calls(self, topic: str, calls: int, seconds: float, last: float) -> None:
        """Count `calls` calls of the topic's listener that took `seconds` together, and the last of them `last`."""
        found, now = self._topic(topic), self._clock()
        found.called.add(now, seconds, calls)
        found.listener.add_equal(now, last, 1)
        if calls > 1:
            found.listener.add_equal(now, max(0.0, seconds - last) / (calls - 1), calls - 1)

    def listener(self) -> Latency:
        """How long listener calls took, of all topics. Thread-safe."""
        return latency_of([found.listener for found in self._topics.copy().values()], self._clock())

    def of(self, topic: str, in_flight: int = 0) -> TopicRates:
        """The recent figures of a topic, with what is in flight now. Thread-safe."""
        found, now = self._topics.get(topic), self._clock()
        if found is None:
            return TopicRates(in_flight=in_flight)
        called = found.called.minute(now)
        return TopicRates(
            pulled_per_second=found.pulled.minute(now).per_second,
            pull_seconds=found.pull_times.minute(now).mean,
            consumed_per_second=found.consumed.minute(now).per_second,
            failed_per_second=found.failed.minute(now).per_second,
            consume_seconds=(called if called.times else found.called.hour(now)).mean,
            failed_in_hour=int(found.failed.hour(now).value),
            listener=found.listener.latency(now),
            in_flight=in_flight,
        )

    def topics(self) -> dict[str, TopicRates]:
        """The recent figures of every topic that there are any of. Thread-safe."""
        return {topic: self.of(topic) for topic in sorted(self._topics.copy())}

    def brokers(self, held: Iterable[tuple[str, Held]]) -> dict[str, BrokerPulls]:
        """The figures of all brokers by name, of which these queues are held now. Thread-safe."""
        now, pulled = self._clock(), self._brokers.copy()
        queues: dict[str, list[Held]] = {}
        for name, queue in held:
            queues.setdefault(name, []).append(queue)
        found = {}
        for name in sorted({*queues, *pulled}):
            broker, own = pulled.get(name) or _Broker(now), queues.get(name, [])
            found[name] = BrokerPulls(
                queues=len(own),
                held=sum(each.messages for each in own),
                held_bytes=sum(each.size for each in own),
                pulled=broker.messages,
                pulled_per_second=broker.pulled.minute(now).per_second,
                latency=broker.latency.latency(now),
            )
        return found

    def _topic(self, topic: str) -> _Topic:
        found = self._topics.get(topic)
        return _one_more(self._topics, topic, _Topic(self._clock())) if found is None else found


def _one_more(table: dict[str, T], name: str, made: T) -> T:
    """Remember one more, and forget the oldest where there are too many."""
    while len(table) >= MOST_TOPICS:
        del table[next(iter(table))]
    table[name] = made
    return made
