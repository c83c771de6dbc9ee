"""What requests of administrators may access in a broker: a small object for each processor module, as in `views`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.flows import Flows
    from rocketpy_broker_sim.broker.identity import Identity
    from rocketpy_broker_sim.broker.name_servers.topic_announcement import NewTopics
    from rocketpy_broker_sim.broker.persistence import Persistence
    from rocketpy_broker_sim.broker.tables.consumers import ConsumerTable
    from rocketpy_broker_sim.broker.tables.delay_offsets import DelayOffsetTable
    from rocketpy_broker_sim.broker.tables.filters import ConsumerFilterTable
    from rocketpy_broker_sim.broker.tables.offsets import ConsumerOffsetTable
    from rocketpy_broker_sim.broker.tables.producers import ProducerTable
    from rocketpy_broker_sim.broker.tables.request_modes import RequestModes
    from rocketpy_broker_sim.broker.tables.subscriptions import SubscriptionGroupTable
    from rocketpy_broker_sim.broker.tables.topics import TopicTable
    from rocketpy_broker_sim.broker.turn import Turn
    from rocketpy_broker_sim.broker.upkeep.cleaning_service import CleaningService
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.store.message_reads import MessageReads
    from rocketpy_broker_sim.store.message_store import MessageStore

__all__ = [
    "BrokerAdminView",
    "CleaningView",
    "ConsumptionView",
    "EntriesView",
    "FlowView",
    "GroupAdminView",
    "OffsetTablesView",
    "ProducersView",
    "RequestModeView",
    "TopicAdminView",
    "TopicStatsView",
    "UnavailableView",
]


# --- topics, groups and the broker itself --------------------------------------------------------------


class TopicAdminView(NamedTuple):
    """What the requests of administrators about topics use.

    Attributes:
        config: The settings.
        store: The messages.
        topics: The topics.
        offsets: The offsets of groups.
        turn: The turn in which processors run; it writes what they put.
        persistence: Writes the tables.
        new_topics: Those that the name servers do not know yet, or not as they are now.
    """

    config: BrokerConfig
    store: MessageStore
    topics: TopicTable
    offsets: ConsumerOffsetTable
    turn: Turn
    persistence: Persistence
    new_topics: NewTopics


class GroupAdminView(NamedTuple):
    """What the requests of administrators about groups use.

    Attributes:
        groups: The consumer groups.
        offsets: The offsets of groups.
        filters: The filters of groups.
        flows: The statistics of groups.
        persistence: Writes the tables.
    """

    groups: SubscriptionGroupTable
    offsets: ConsumerOffsetTable
    filters: ConsumerFilterTable
    flows: Flows
    persistence: Persistence


class CleaningView(NamedTuple):
    """What the requests of administrators to delete files and queues use.

    Attributes:
        store: The messages.
        topics: The topics.
        offsets: The offsets of groups.
        turn: The turn in which processors run; it writes what they put.
        persistence: Writes the tables.
        cleaning: The service that deletes files.
    """

    store: MessageStore
    topics: TopicTable
    offsets: ConsumerOffsetTable
    turn: Turn
    persistence: Persistence
    cleaning: CleaningService


class BrokerAdminView(NamedTuple):
    """The settings and the state of the broker.

    Attributes:
        config: The settings.
        identity: The names and the address of the broker.
        topics: The topics.
        runtime_info: Returns the state of the broker, by Apache's keys.
    """

    config: BrokerConfig
    identity: Identity
    topics: TopicTable
    runtime_info: Callable[[], dict[str, str]]


# --- clients, queues, offsets and statistics -----------------------------------------------------------


class ConsumptionView(NamedTuple):
    """Which groups consume which topics.

    Attributes:
        identity: The names and the address of the broker.
        offsets: The offsets of groups.
        consumers: The members of consumer groups.
    """

    identity: Identity
    offsets: ConsumerOffsetTable
    consumers: ConsumerTable


class ProducersView(NamedTuple):
    """Which producers are connected.

    Attributes:
        producers: The producers that are connected.
    """

    producers: ProducerTable


class TopicStatsView(NamedTuple):
    """The offsets and rates of queues and topics.

    Attributes:
        config: The settings.
        reads: Messages, offsets and times, for reading.
        topics: The topics.
        offsets: The offsets of groups.
        flows: The statistics of topics.
    """

    config: BrokerConfig
    reads: MessageReads
    topics: TopicTable
    offsets: ConsumerOffsetTable
    flows: Flows


class FlowView(NamedTuple):
    """The statistics of topics, queues and groups.

    Attributes:
        config: The settings.
        flows: The statistics.
    """

    config: BrokerConfig
    flows: Flows


class OffsetTablesView(NamedTuple):
    """The offsets of all groups.

    Attributes:
        reads: Messages, offsets and times, for reading.
        topics: The topics.
        groups: The consumer groups.
        offsets: The offsets of groups.
        delay_offsets: How far each delay level has been delivered.
        consumers: The members of consumer groups.
        persistence: Writes the tables.
    """

    reads: MessageReads
    topics: TopicTable
    groups: SubscriptionGroupTable
    offsets: ConsumerOffsetTable
    delay_offsets: DelayOffsetTable
    consumers: ConsumerTable
    persistence: Persistence


class EntriesView(NamedTuple):
    """The entries of consume queues.

    Attributes:
        reads: Messages, offsets and times, for reading.
        consumers: The members of consumer groups.
        filters: Which groups filter by properties.
    """

    reads: MessageReads
    consumers: ConsumerTable
    filters: ConsumerFilterTable


class RequestModeView(NamedTuple):
    """The modes in which groups consume topics.

    Attributes:
        topics: The topics.
        groups: The consumer groups.
        modes: The modes that administrators have set.
    """

    topics: TopicTable
    groups: SubscriptionGroupTable
    modes: RequestModes


class UnavailableView(NamedTuple):
    """What the answers about parts that this broker does not have use.

    Attributes:
        store: The messages.
    """

    store: MessageStore
