"""Sends of an event loop whose messages linger: they are handed to the portal, which forms and sends batches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rocketpy.producer.lingering import no_room

if TYPE_CHECKING:
    from rocketpy.aio.bridge import Bridge
    from rocketpy.message import Message, MessageQueue
    from rocketpy.producer.items import Head, Outcome
    from rocketpy.producer.outside import Outside
    from rocketpy.results import SendResult

__all__ = ["LoopSends"]


class _Sender:
    """A task that waits for the outcome of its message.

    Attributes:
        is_gone: whether it was cancelled.
        future: wakes the task. It never holds an exception, which might never be retrieved.
    """

    __slots__ = ("_bridge", "_outcome", "future", "is_gone")

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._outcome: Outcome | None = None
        self.future: asyncio.Future[Outcome] = bridge.loop.create_future()
        self.is_gone = False

    def hear(self, outcome: Outcome) -> None:
        """Take the outcome, in the portal, and wake the task."""
        self._outcome = outcome
        self._bridge.inbox.deliver(self._wake)

    @staticmethod
    def hear_all(sinks: Sequence[_Sender], results: Sequence[SendResult]) -> None:
        """Have each take its result, and wake all tasks in one go. In the portal."""
        for sink, result in zip(sinks, results, strict=True):
            sink._outcome = result
        sinks[0]._bridge.inbox.deliver(partial(_wake_each, sinks))

    def _wake(self) -> None:
        outcome, self._outcome = self._outcome, None
        if outcome is not None and not self.future.done():
            self.future.set_result(outcome)


def _wake_each(sinks: Sequence[_Sender]) -> None:
    for sink in sinks:
        sink._wake()


class LoopSends:
    """The sends of one asyncio producer whose messages linger.

    Args:
        bridge: To the loop that uses the producer.
    """

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._taken = 0
        self._under_way = 0
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def under_way(self) -> int:
        """Sends that have begun and not ended."""
        return self._under_way

    async def send(
        self,
        outside: Outside,
        message: Message,
        head: Head,
        queue: MessageQueue | None,
        seconds: float,
        deadline: float,
        retries: int,
    ) -> SendResult:
        """Send a message and wait for the answer.

        Raises:
            TooManyRequestsError: too many bytes were waiting, for the whole time.
            RocketMQError: it was not acknowledged.
        """
        accumulator = outside.accumulator
        assert accumulator is not None
        size, most = len(message.body), outside.core.config.total_batch_max_bytes
        sender = _Sender(self._bridge)
        entry = outside.items.entry(message, head, sender, queue, seconds, 1 + retries, deadline, waits=True)
        while self._taken and self._taken + size > most:
            accumulator.hurry()
            if not await self._wait_eased(deadline - outside.core.clock()):
                raise no_room(message.topic, seconds, most)
        self._taken += size
        self._under_way += 1
        try:
            accumulator.drop_in(entry)
            outcome = await sender.future
        except BaseException:
            sender.is_gone = True
            raise
        finally:
            self._taken -= size
            self._under_way -= 1
            self._wake_all()
            del sender, entry
        if isinstance(outcome, BaseException):
            try:
                raise outcome
            finally:
                del outcome  # its traceback refers to this frame: no cycle may stay behind
        return outcome

    async def wait_idle(self) -> None:
        """Wait until no send is under way."""
        while self._under_way:
            await self._wait_eased(None)

    async def _wait_eased(self, seconds: float | None) -> bool:
        """Wait up to `seconds` seconds until a send has ended. Returns whether one has."""
        waiter: asyncio.Future[None] = self._bridge.loop.create_future()
        self._waiting.append(waiter)
        done, _ = await asyncio.wait((waiter,), timeout=None if seconds is None else max(0.0, seconds))
        return bool(done)

    def _wake_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
