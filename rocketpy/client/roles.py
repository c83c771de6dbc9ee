"""Roles: the producers and consumers that share a client instance, as the client sees them, and the table of them.

Plays the part of MQProducerInner, MQConsumerInner and of the two tables in MQClientInstance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from rocketpy.errors import ConfigError
from rocketpy.wire.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData

if TYPE_CHECKING:
    from rocketpy.message import MessageExt, MessageQueue
    from rocketpy.wire.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
    from rocketpy.wire.headers.transaction import CheckTransactionStateRequestHeader

__all__ = [
    "AskedRole",
    "ConsumerRole",
    "Driven",
    "DrivenRole",
    "ProducerRole",
    "Role",
    "RoleTable",
    "TransactionQuestion",
]


class Role(Protocol):
    """A producer or a consumer, as the client instance sees it. Its methods are plain functions that never wait."""

    def on_route_changed(self, topic: str) -> None:
        """The route of a topic has changed."""
        ...

    def client_closing(self) -> None:
        """The client closes: start nothing new."""
        ...


class ProducerRole(Role, Protocol):
    """A producer."""


class TransactionQuestion(NamedTuple):
    """A broker's check of a transaction.

    Attributes:
        address: the address of the broker.
        header: the place of the half message, which the answer repeats.
        message: the message.
    """

    address: str
    header: CheckTransactionStateRequestHeader
    message: MessageExt


@runtime_checkable
class AskedRole(Protocol):
    """A producer that takes brokers' checks of transactions. Producers without these methods get none."""

    def topics(self) -> Iterable[str]:
        """The topics whose routes the client must keep fresh, so that their brokers know the producer."""
        ...

    def on_check(self, question: TransactionQuestion) -> None:
        """Take a broker's check of a transaction. Must not wait."""
        ...


class ConsumerRole(Role, Protocol):
    """A consumer."""

    def consumer_data(self) -> ConsumerData:
        """What heartbeats tell brokers: group, message model, subscriptions. Called for every heartbeat."""
        ...

    def topics(self) -> Iterable[str]:
        """The topics whose routes the client must keep fresh."""
        ...

    def rebalance_now(self) -> None:
        """The members of the group have changed: rebalance at once."""
        ...


class Driven(Protocol):
    """What carries out requests of brokers to a running consumer."""

    def offsets_of(self, topic: str) -> dict[MessageQueue, int]:
        """For each of the consumer's queues of a topic, the offset that is committed or will be next."""
        ...

    async def note_reset(self, topic: str, offsets: Mapping[MessageQueue, int], *, sender: str) -> None:
        """Note a reset to these offsets by the broker at `sender`. Returns soon."""
        ...

    async def carry_out_resets(self) -> None:
        """Have the consumer continue at the noted offsets in the queues that it has."""
        ...

    async def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        """The consumer's internal state, with the stacks of its threads and tasks if `with_stacks`."""
        ...

    async def consume_directly(self, message: MessageExt) -> ConsumeMessageDirectlyResult:
        """Pass one message to the listener of its topic; no offset changes.

        Raises:
            BrokerError: its topic has no listener, its body cannot be unpacked, or too many such calls are running.
        """
        ...


@runtime_checkable
class DrivenRole(Protocol):
    """A consumer that carries out requests of brokers. Consumers without this attribute do not."""

    @property
    def driven(self) -> Driven | None:
        """What carries out the requests; None while the consumer does not run."""
        ...


class RoleTable:
    """Producers and consumers by group. Each group is there once, as brokers identify them by client id and group."""

    def __init__(self) -> None:
        self.producers: dict[str, ProducerRole] = {}
        self.consumers: dict[str, ConsumerRole] = {}

    def add_producer(self, group: str, role: ProducerRole) -> None:
        """Add a producer.

        Raises:
            ConfigError: this client already has one of that group.
        """
        if group in self.producers:
            raise ConfigError(f"this client has a producer of the group {group!r} already; {_REMEDY}")
        self.producers[group] = role

    def add_consumer(self, group: str, role: ConsumerRole) -> None:
        """Add a consumer.

        Raises:
            ConfigError: this client already has one of that group.
        """
        if group in self.consumers:
            raise ConfigError(f"this client has a consumer of the group {group!r} already; {_REMEDY}")
        self.consumers[group] = role

    def __iter__(self) -> Iterator[Role]:
        """All roles."""
        yield from list(self.producers.values())
        yield from list(self.consumers.values())

    def topics(self) -> set[str]:
        """Every topic that a consumer, or a producer of transactions, needs."""
        roles: list[object] = list(self.producers.values())
        consumed = {topic for role in self.consumers.values() for topic in role.topics()}
        return consumed.union(*(role.topics() for role in roles if isinstance(role, AskedRole)))

    @property
    def are_needed(self) -> bool:
        """Whether brokers must always know this client, because it consumes messages or takes checks of
        transactions."""
        return bool(self.consumers) or any(isinstance(role, AskedRole) for role in self.producers.values())

    def heartbeat(self, client_id: str) -> HeartbeatData | None:
        """The body of a heartbeat, None if there are no roles."""
        if not self.producers and not self.consumers:
            return None
        return HeartbeatData(
            client_id=client_id,
            producer_data_set=[ProducerData(group_name=group) for group in self.producers],
            consumer_data_set=[role.consumer_data() for role in self.consumers.values()],
        )


_REMEDY = "use it, choose another group, or give the second one a client of its own"
