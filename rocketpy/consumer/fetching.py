"""Fetching: which queues a topic has, even before the consumer is started, and the first and last offsets of a queue.

Plays the part of fetchMessageQueues and offsetForTimestamp in DefaultLitePullConsumerImpl.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import trio

from rocketpy.admin.sharing import HasAdmin
from rocketpy.client.arguments import checked_queue, checked_seconds, checked_timestamp
from rocketpy.client.instance import MQClientInstance
from rocketpy.client.lifecycle import State
from rocketpy.client.opening import Opening
from rocketpy.consumer.offsets.queue_offsets import QueueOffsets
from rocketpy.wire.names import check_topic

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from rocketpy.message import MessageQueue

__all__ = ["Fetching"]


class Fetching(HasAdmin, Opening):
    """What lite pull and pull consumers have in common. The arguments are those of `Opening`."""

    @property
    @abstractmethod
    def _group(self) -> str:
        """The consumer group."""

    @abstractmethod
    def _check_usable(self) -> object:
        """Refuse use unless the consumer is open, in this loop."""

    def _offsets_of(self, queue: MessageQueue) -> QueueOffsets:
        """What asks about a queue, which the consumer need not have."""
        checked_queue(queue)
        self._check_usable()
        return QueueOffsets(self.client, self._group)

    async def fetch_message_queues(
        self, topic: str, *, timeout: float | timedelta | None = None
    ) -> tuple[MessageQueue, ...]:
        """The readable queues of a topic, sorted. Before the start it opens connections for this call alone.

        Args:
            topic: the topic.
            timeout: seconds for the whole call; `request_timeout` when None.

        Raises:
            ConfigError: an argument cannot be used.
            NameServerUnreachableError: no name server answered.
            TopicNotFoundError: the topic does not exist.
            TopicNotWritableError: it exists and may not be read.
            BrokerUnreachableError: it exists, and no broker that holds it has a usable address; or no broker is
                registered with the name servers.
            ClientClosedError: the consumer is closed.
        """
        check_topic(topic)
        budget = self._client_config.request_timeout if timeout is None else checked_seconds("timeout", timeout)
        if self._lifecycle.state is not State.NEW or not self._owns_client:
            (self._lifecycle if self._owns_client else self.client).check_here()
            return await self._fetch(self.client, topic, budget)
        async with MQClientInstance(self._client_config, network=self._network) as client:
            return await self._fetch(client, topic, budget)

    async def _fetch(self, client: MQClientInstance, topic: str, budget: float) -> tuple[MessageQueue, ...]:
        deadline = trio.current_time() + budget
        await client.routes.refresh(topic, timeout=budget)
        left = max(0.001, deadline - trio.current_time())
        return await client.routes.ensure_subscribe(topic, timeout=left)

    # --- of one queue ---------------------------------------------------------------------------------

    async def beginning_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message in a queue; this consumer need not have the queue.

        Args:
            queue: a queue of a topic.

        Raises:
            ConfigError: this is not a queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        return await self._offsets_of(queue).beginning(queue)

    async def end_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message of a queue will get; this consumer need not have the queue.

        Args:
            queue: a queue of a topic.

        Raises:
            ConfigError: this is not a queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        return await self._offsets_of(queue).end(queue)

    async def offset_for_timestamp(self, queue: MessageQueue, timestamp: int | datetime) -> int:
        """The offset of the first message stored at a time or later; this consumer need not have the queue.

        Args:
            queue: the queue.
            timestamp: ms since 1970, or a datetime with a time zone.

        Raises:
            ConfigError: an argument cannot be used.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        return await self._offsets_of(queue).at(queue, checked_timestamp(timestamp))
