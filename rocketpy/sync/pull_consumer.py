"""PullConsumer for blocking code. Thread-safe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, final

from rocketpy.client.shared_client import trio_client_of
from rocketpy.consumer import PullConsumer as TrioConsumer
from rocketpy.consumer.surface import ConsumerSurface
from rocketpy.sync.calls import call_in_own_loop
from rocketpy.sync.fetching import Fetching

if TYPE_CHECKING:
    from datetime import timedelta

    from rocketpy.config import PullConsumerConfig
    from rocketpy.config.typed import PullConsumerSettings
    from rocketpy.consumer.pull_statistics import PullConsumerStatistics
    from rocketpy.message import MessageQueue
    from rocketpy.remoting.network import Network
    from rocketpy.results import PullResult
    from rocketpy.sync.client import MQClientInstance

__all__ = ["PullConsumer"]


@final
class PullConsumer(Fetching[TrioConsumer]):
    """Gets messages of one queue from an offset on: ``with rocketpy.sync.PullConsumer("audit") as consumer:``.

    Arguments and methods are those of `rocketpy.PullConsumer`, without `await`.
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        config: PullConsumerConfig | None = None,
        client: MQClientInstance | None = None,
        network: Network | None = None,
        **fields: Unpack[PullConsumerSettings],
    ) -> None:
        self._made_with = {"group": group, "config": config, "client": client, "network": network, **fields}
        shared = trio_client_of(client, "rocketpy.sync")
        surface = ConsumerSurface(async_caller=call_in_own_loop)
        inner = TrioConsumer(group, config=config, client=shared, network=network, _surface=surface, **fields)
        super().__init__(inner, needs=client, client=inner.client)

    @property
    def config(self) -> PullConsumerConfig:
        """The settings."""
        return self._inner.config

    @property
    def _is_waited_for(self) -> bool:
        return self._inner.outside.is_waited_for

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_messages: int = 32,
        tags: str | None = None,
        sql: str | None = None,
        timeout: float | timedelta | None = None,
    ) -> PullResult:
        """Get the messages of a queue from an offset on, without waiting for any. See `rocketpy.PullConsumer.pull`.

        Raises:
            ConfigError: an argument cannot be used.
            MessageDecodeError: a message is damaged; its attribute `decoded` has those before it.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        return self._portal.call(
            self._inner.pull, queue, offset, max_messages=max_messages, tags=tags, sql=sql, timeout=timeout
        )

    def pull_block_if_not_found(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_messages: int = 32,
        tags: str | None = None,
        sql: str | None = None,
    ) -> PullResult:
        """Get the messages of a queue from an offset on; if there are none, wait until one arrives.

        See `rocketpy.PullConsumer.pull_block_if_not_found`.

        Raises:
            ConfigError: an argument cannot be used.
            MessageDecodeError: a message is damaged; its attribute `decoded` has those before it.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        return self._portal.call(
            self._inner.pull_block_if_not_found, queue, offset, max_messages=max_messages, tags=tags, sql=sql
        )

    def update_consume_offset(self, queue: MessageQueue, offset: int) -> None:
        """Commit the offset of the next message to consume, and wait until the broker has confirmed it.

        Raises:
            ConfigError: an argument cannot be used.
            OffsetOutOfRangeError: the queue does not reach that far.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        self._portal.call(self._inner.update_consume_offset, queue, offset)

    def fetch_consume_offset(self, queue: MessageQueue) -> int | None:
        """The committed offset of a queue. See `rocketpy.PullConsumer.fetch_consume_offset`.

        Raises:
            ConfigError: this is not a queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        return self._portal.call(self._inner.fetch_consume_offset, queue)

    def statistics(self) -> PullConsumerStatistics:
        """What it has done since it started.

        Raises:
            ClientClosedError: it was never started.
        """
        return self._inner.statistics()
