"""A load of a given size and rate, and how long its sends take.

With a rate, a duration begins when the message was due and not when it was sent, so a broker that stalls shows in every
message that it delayed. Plays the part of Kafka's producer-perf-test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.cli.traffic.latencies import Latencies
from rocketpy.errors import ConfigError, RocketMQError
from rocketpy.message import Message
from rocketpy.seams import random_source
from rocketpy.services import start_whole

if TYPE_CHECKING:
    from rocketpy.message import MessageExt
    from rocketpy.producer.producer import Producer

__all__ = ["Load", "Plan", "Received", "Span"]

MAX_IN_FLIGHT = 4096
"""Requests in flight: a task for each."""
MAX_BATCH = 10_000
"""Messages in one request."""
MAX_SIZE = 16 << 20
"""Bytes of a body."""
STOP_AFTER = 10
"""Failures in a row, after which the run ends."""
_MARK, _STAMP = 8, 20
"""Bytes at the beginning of a body: the mark of the run, and when the message was due or sent, in ns as digits."""


@attrs.frozen(kw_only=True)
class Plan:
    """What is to be sent.

    Raises:
        ConfigError: a number cannot be used.
    """

    topic: str
    messages: int | None = None
    """How many; None for no limit."""
    seconds: float | None = None
    """For how long; None for no limit."""
    size: int = 1024
    """Bytes of each body."""
    rate: float | None = None
    """Messages a second; None for as many as possible."""
    in_flight: int = 64
    """Requests in flight."""
    batch: int = 1
    """Messages in each request."""
    tags: str | None = None

    def __attrs_post_init__(self) -> None:
        """Check the numbers."""
        _check("--messages", self.messages, 1, 10**12)
        _check("--seconds", self.seconds, 0.001, 10**9)
        _check("--size", self.size, _MARK + _STAMP, MAX_SIZE)
        _check("--rate", self.rate, 0.001, 10**9)
        _check("--in-flight", self.in_flight, 1, MAX_IN_FLIGHT)
        _check("--batch", self.batch, 1, MAX_BATCH)
        if self.messages is None and self.seconds is None:
            raise ConfigError("pass --messages, --seconds or both")


def _check(name: str, value: float | None, least: float, most: float) -> None:
    if value is not None and not least <= value <= most:
        raise ConfigError(f"{name} must be between {least:g} and {most:g}, not {value:g}")


@attrs.define
class Span:
    """What was sent in a span of time."""

    seconds: float = 0.0
    messages: int = 0
    size: int = 0
    """Bytes of the bodies."""
    failed: int = 0
    latencies: Latencies = attrs.Factory(Latencies)

    def add(self, other: Span) -> None:
        """Add what was sent in another span."""
        self.messages += other.messages
        self.size += other.size
        self.failed += other.failed
        self.latencies.merge(other.latencies)


class Received:
    """The messages of a run as they arrive at a reader in the same process.

    Args:
        run: the mark of the run.

    Attributes:
        latencies: from the time when a message was due or sent.
    """

    def __init__(self, run: bytes) -> None:
        self.latencies = Latencies()
        self._run = run
        self._arrived = trio.Event()

    def note(self, messages: Sequence[MessageExt]) -> None:
        """Count messages of the run; others are ignored."""
        now = trio.current_time()
        for message in messages:
            body = message.body
            if body[:_MARK] == self._run:
                self.latencies.add(now - int(body[_MARK : _MARK + _STAMP]) / 1e9)
        self._arrived.set()

    async def wait(self, count: int, seconds: float) -> None:
        """Wait until `count` messages have arrived, or until none has arrived for `seconds`."""
        while self.latencies.count < count:
            with trio.move_on_after(seconds) as late:
                await self._arrived.wait()
            if late.cancelled_caught:
                return
            self._arrived = trio.Event()


class Load:
    """One run.

    Args:
        producer: an open producer.
        plan: what is to be sent.
        each_second: called with the span of each second.

    Attributes:
        run: the mark of the run, with which each body begins.
        total: everything that was sent.
    """

    def __init__(self, producer: Producer, plan: Plan, each_second: Callable[[Span], None]) -> None:
        self.run = random_source().randbytes(_MARK)
        self.total = Span()
        self._producer = producer
        self._plan = plan
        self._each_second = each_second
        self._span = Span()
        self._claimed = 0
        self._failures = 0
        """In a row."""
        self.error: RocketMQError | None = None
        """The first one."""
        self._rest = random_source().randbytes(plan.size - _MARK - _STAMP)  # it cannot be compressed
        self._began = 0.0

    async def send(self) -> None:
        """Send everything.

        Raises:
            RocketMQError: several sends in a row failed.
        """
        self._began = self._second_began = trio.current_time()
        try:
            async with trio.open_nursery() as ticking:
                start_whole(ticking, self._tick)
                async with trio.open_nursery() as workers:
                    for _ in range(self._plan.in_flight):
                        start_whole(workers, self._work)
                ticking.cancel_scope.cancel()
        finally:  # what was sent before Ctrl-C counts too
            self._end_second()
            self.total.seconds = trio.current_time() - self._began

    async def _tick(self) -> None:
        for second in range(1, 10**9):
            await trio.sleep_until(self._began + second)
            self._end_second()

    def _end_second(self) -> None:
        span, self._span = self._span, Span()
        now = trio.current_time()
        span.seconds, self._second_began = now - self._second_began, now
        self.total.add(span)
        if span.messages or span.failed:
            self._each_second(span)

    def _claim(self) -> tuple[int, float] | None:
        """The number of messages of the next request, and when it is due; None if there is none."""
        plan, first = self._plan, self._claimed
        count = plan.batch if plan.messages is None else min(plan.batch, plan.messages - first)
        now = trio.current_time()
        due = now if plan.rate is None else self._began + first / plan.rate
        if count <= 0 or (plan.seconds is not None and max(now, due) >= self._began + plan.seconds):
            return None
        self._claimed += count
        return count, due

    async def _work(self) -> None:
        while (claim := self._claim()) is not None:
            count, due = claim
            if due > trio.current_time():
                await trio.sleep_until(due)
            try:
                await self._send(count, due)
            except RocketMQError as error:
                self._fail(count, error)
            else:
                self._failures = 0
                span = self._span
                span.messages += count
                span.size += count * self._plan.size
                span.latencies.add(trio.current_time() - due, count)

    async def _send(self, count: int, due: float) -> None:
        body = self.run + f"{round(due * 1e9):0{_STAMP}d}".encode() + self._rest
        plan = self._plan
        if count == 1:
            await self._producer.send(Message(plan.topic, body, tags=plan.tags))
        else:
            await self._producer.send_batch([Message(plan.topic, body, tags=plan.tags) for _ in range(count)])

    def _fail(self, count: int, error: RocketMQError) -> None:
        self._span.failed += count
        self._failures += 1
        self.error = self.error or error
        if self._failures >= STOP_AFTER or isinstance(error, ConfigError):
            raise error
