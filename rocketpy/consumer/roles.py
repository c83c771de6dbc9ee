"""Roles: what a client asks of its consumers, in objects of their own, so that users of a consumer do not see it.

Each exists only while its consumer runs. Plays the part of MQConsumerInner.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rocketpy.results import MessageModel
from rocketpy.wire.bodies.heartbeat import ConsumerData
from rocketpy.wire.enums import ConsumeFromWhere, ConsumeType

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.client.roles import Driven
    from rocketpy.config import PullConsumerConfig
    from rocketpy.config.sharing import SharingConfig
    from rocketpy.consumer.background import Background
    from rocketpy.consumer.queue_watch import QueueWatch
    from rocketpy.consumer.rebalancing.rebalance import Subscribed
    from rocketpy.errors import ServiceCrashedError

__all__ = ["PullRole", "SharingRole"]


class SharingRole:
    """The role of a push or lite pull consumer.

    Args:
        client: the client.
        config: the consumer's settings.
        consume_type: whether messages are pushed or pulled.
        subscribed: its topics.
        running: its running part.
        watch: the topics whose queues it watches, besides those that it consumes.
    """

    def __init__(
        self,
        client: MQClientInstance,
        config: SharingConfig,
        consume_type: ConsumeType,
        subscribed: Subscribed,
        running: Background,
        watch: QueueWatch | None = None,
    ) -> None:
        self._client = client
        self._config = config
        self._consume_type = consume_type
        self._subscribed = subscribed
        self._running = running
        self._watch = watch

    def consumer_data(self) -> ConsumerData:
        """What heartbeats tell brokers about this consumer."""
        config = self._config
        return ConsumerData(
            group_name=config.group,
            consume_type=self._consume_type,
            message_model=config.message_model,
            consume_from_where=config.consume_from_where,
            subscription_data_set=self._subscribed.data(),
            unit_mode=config.unit_mode,
        )

    def topics(self) -> Iterable[str]:
        """The topics whose routes the client must keep fresh."""
        watched = () if self._watch is None else self._watch.topics
        return dict.fromkeys((*self._subscribed.topics, *watched))

    def rebalance_now(self) -> None:
        """The members of the group have changed."""
        self._running.rebalance.soon()

    def on_route_changed(self, topic: str) -> None:
        """The route of a topic has changed."""
        if self._watch is not None:
            self._watch.look()
        if topic in self._subscribed.topics:
            self.rebalance_now()

    def client_closing(self) -> None:
        """A shared client closes before the consumer does: stop, as nothing can be committed any more."""
        if self._client.crash is not None:
            self._running.fail(self._client.crash)
        self._running.stop_pulling()

    @property
    def driven(self) -> Driven:
        """What carries out requests of brokers."""
        return self._running.driven


class PullRole:
    """The role of a pull consumer, which has no share of the queues.

    Args:
        client: the client.
        config: the consumer's settings.
        driven: carries out requests of brokers.

    Attributes:
        crash: the bug that has ended the client before the consumer was closed, if one did.
        driven: the same.
    """

    def __init__(self, client: MQClientInstance, config: PullConsumerConfig, driven: Driven) -> None:
        self._client = client
        self._config = config
        self.crash: ServiceCrashedError | None = None
        self.driven = driven

    def consumer_data(self) -> ConsumerData:
        """What heartbeats tell brokers: only that the group is here, since every pull carries its subscription."""
        return ConsumerData(
            group_name=self._config.group,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            message_model=MessageModel.CLUSTERING,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
            subscription_data_set=[],
            unit_mode=self._config.unit_mode,
        )

    def topics(self) -> tuple[str, ...]:
        """No topics: routes in use are kept fresh anyway."""
        return ()

    def rebalance_now(self) -> None:
        """Do nothing: there is nothing to rebalance."""

    def on_route_changed(self, topic: str) -> None:
        """Do nothing: nothing depends on it."""

    def client_closing(self) -> None:
        """A shared client closes before the consumer does: remember a crash of it."""
        self.crash = self._client.crash
