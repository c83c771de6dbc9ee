"""Fetching for asyncio: which queues a topic has, and the first and last offsets of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rocketpy.aio.has_admin import HasAdmin
from rocketpy.aio.lifetime import Lifetime
from rocketpy.consumer.fetching import Fetching as TrioFetching

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from rocketpy.message import MessageQueue

__all__ = ["Fetching"]

F = TypeVar("F", bound=TrioFetching)


class Fetching(HasAdmin, Lifetime[F]):
    """What lite pull and pull consumers have in common. The arguments are those of `Lifetime`."""

    async def fetch_message_queues(
        self, topic: str, *, timeout: float | timedelta | None = None
    ) -> tuple[MessageQueue, ...]:
        """The readable queues of a topic, sorted. May be called before the start.

        Raises:
            ConfigError: an argument cannot be used.
            RouteNotFoundError: the topic cannot be found, or not be read; the subclass says why.
            ClientClosedError: the consumer is closed, or was made before a fork.
        """
        return await self._call_anyhow(self._inner.fetch_message_queues, topic, timeout=timeout)

    async def beginning_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message in a queue; this consumer need not have the queue.

        Raises:
            ConfigError: this is not a queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        return await self._call(self._inner.beginning_offset, queue)

    async def end_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message of a queue will get; this consumer need not have the queue.

        Raises:
            ConfigError: this is not a queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        return await self._call(self._inner.end_offset, queue)

    async def offset_for_timestamp(self, queue: MessageQueue, timestamp: int | datetime) -> int:
        """The offset of the first message stored at a time (ms since 1970, or a datetime with a time zone) or after it.

        Raises:
            ConfigError: an argument cannot be used.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        return await self._call(self._inner.offset_for_timestamp, queue, timestamp)
