"""Fetching: the queues of a topic, which a consumer can be asked for before it is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from rocketpy.client.instance import MQClientInstance
from rocketpy.client.lifecycle import State
from rocketpy.consumer.arguments import checked_seconds
from rocketpy.consumer.opening import Opening
from rocketpy.wire.names import check_topic

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue

__all__ = ["Fetching"]


class Fetching(Opening):
    """What consumers that are asked for messages have in common. The arguments are those of `Opening`."""

    async def fetch_message_queues(self, topic: str, *, timeout: float | None = None) -> tuple[MessageQueue, ...]:
        """The queues of a topic that can be read, in order; before the start too, over connections for this call.

        Args:
            topic: the topic.
            timeout: seconds for the whole call; left out, `request_timeout`.

        Raises:
            ConfigError: an argument cannot be used.
            NameServerUnreachableError: no name server answered.
            TopicNotFoundError: the topic does not exist.
            TopicNotWritableError: it exists and may not be read.
            BrokerUnreachableError: it exists, and no broker that holds it has a usable address.
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
