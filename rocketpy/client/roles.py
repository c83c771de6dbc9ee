"""What a client instance asks of the producers and consumers that share it, and the table of them.

Plays the part of MQProducerInner, MQConsumerInner and of the two tables in MQClientInstance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rocketpy.errors import ConfigError
from rocketpy.wire.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData

if TYPE_CHECKING:
    from rocketpy.message import MessageExt, MessageQueue
    from rocketpy.wire.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo

__all__ = ["ConsumerRole", "Driven", "DrivenRole", "ProducerRole", "Role", "RoleTable"]


class Role(Protocol):
    """A producer or a consumer, as the client instance sees it. All of these are plain functions that never wait."""

    def on_route_changed(self, topic: str) -> None:
        """The route of a topic is another one now."""
        ...

    def client_closing(self) -> None:
        """The client closes: begin nothing new."""
        ...


class ProducerRole(Role, Protocol):
    """A producer."""


class ConsumerRole(Role, Protocol):
    """A consumer."""

    def consumer_data(self) -> ConsumerData:
        """What brokers shall know: group, model, subscriptions. Asked for at every heartbeat."""
        ...

    def topics(self) -> Iterable[str]:
        """The topics whose routes must be kept fresh."""
        ...

    def rebalance_now(self) -> None:
        """The members of the group changed: look at once who consumes which queue."""
        ...


class Driven(Protocol):
    """What brokers can have a consumer do while it runs."""

    def offsets_of(self, topic: str) -> dict[MessageQueue, int]:
        """Where it stands on a topic."""
        ...

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on from these offsets, in those of the queues that it has."""
        ...

    async def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        """How it is, inside."""
        ...

    async def consume_directly(self, message: MessageExt) -> ConsumeMessageDirectlyResult:
        """Give one message to a listener; no offset moves.

        Raises:
            BrokerError: nobody listens to its topic.
        """
        ...


@runtime_checkable
class DrivenRole(Protocol):
    """A consumer that brokers can drive. One without this attribute cannot be driven."""

    @property
    def driven(self) -> Driven | None:
        """What drives it; None while it does not run."""
        ...


class RoleTable:
    """Producers and consumers by group; each group once: a broker tells them apart by client id and group alone."""

    def __init__(self) -> None:
        self.producers: dict[str, ProducerRole] = {}
        self.consumers: dict[str, ConsumerRole] = {}

    def add_producer(self, group: str, role: ProducerRole) -> None:
        """Take a producer in.

        Raises:
            ConfigError: this client has one of that group.
        """
        if group in self.producers:
            raise ConfigError(f"this client has a producer of the group {group!r} already; {_REMEDY}")
        self.producers[group] = role

    def add_consumer(self, group: str, role: ConsumerRole) -> None:
        """Take a consumer in.

        Raises:
            ConfigError: this client has one of that group.
        """
        if group in self.consumers:
            raise ConfigError(f"this client has a consumer of the group {group!r} already; {_REMEDY}")
        self.consumers[group] = role

    def __iter__(self) -> Iterator[Role]:
        """All roles."""
        yield from list(self.producers.values())
        yield from list(self.consumers.values())

    def topics(self) -> set[str]:
        """Every topic that a consumer needs."""
        return {topic for role in self.consumers.values() for topic in role.topics()}

    def heartbeat(self, client_id: str) -> HeartbeatData | None:
        """What to tell brokers, None when there is nobody to tell of."""
        if not self.producers and not self.consumers:
            return None
        return HeartbeatData(
            client_id=client_id,
            producer_data_set=[ProducerData(group_name=group) for group in self.producers],
            consumer_data_set=[role.consumer_data() for role in self.consumers.values()],
        )


_REMEDY = "use it, choose another group, or give the second one a client of its own"
