"""What each kind of request may reach of a broker: narrow views, one a processor module.

A `Broker` fits them all; a processor is typed with its own, so that reaching for more shows here. In tests a simple
object with these attributes does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rocketpy.wire.bodies.topics import DataVersion
    from rocketpy.wire.message_id import UniqueIds
    from rocketpy_broker_sim.broker.cleaning import Cleaning
    from rocketpy_broker_sim.broker.persistence import Persistence
    from rocketpy_broker_sim.broker.put_pipeline import PutPipeline
    from rocketpy_broker_sim.broker.statistics import BrokerStatistics
    from rocketpy_broker_sim.broker.subsystems.pulls import Pulls
    from rocketpy_broker_sim.broker.tables.consumers import ConsumerTable
    from rocketpy_broker_sim.broker.tables.offsets import ConsumerOffsetTable
    from rocketpy_broker_sim.broker.tables.producers import ProducerTable
    from rocketpy_broker_sim.broker.tables.subscriptions import SubscriptionGroupTable
    from rocketpy_broker_sim.broker.tables.topics import TopicTable
    from rocketpy_broker_sim.broker.turn import Turn
    from rocketpy_broker_sim.broker.waiters import Waiters
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.serving.slices import Slices
    from rocketpy_broker_sim.store.message_store import MessageStore
    from rocketpy_broker_sim.store.put_result import PutMessageStatus

__all__ = [
    "BrokerAdminView",
    "CleaningView",
    "ClientView",
    "GroupAdminView",
    "PositionView",
    "PullView",
    "PutView",
    "QueryView",
    "QueueView",
    "ResetView",
    "SendBackView",
    "SendView",
    "TopicAdminView",
]


# --- single things -------------------------------------------------------------------------------------


class _Config(Protocol):
    config: BrokerConfig


class _Store(Protocol):
    store: MessageStore


class _Topics(Protocol):
    topics: TopicTable


class _Groups(Protocol):
    groups: SubscriptionGroupTable


class _Offsets(Protocol):
    offsets: ConsumerOffsetTable


class _Consumers(Protocol):
    consumers: ConsumerTable


class _Persistence(Protocol):
    persistence: Persistence


class _Turn(Protocol):
    turn: Turn


class _Waiters(Protocol):
    waiters: Waiters


# --- messages ------------------------------------------------------------------------------------------


class PutView(_Config, _Topics, _Turn, Protocol):
    """Putting a message.

    Attributes:
        store_host: Address of the broker, as records carry it.
        pipeline: Leads messages into the store.
    """

    store_host: bytes
    pipeline: PutPipeline


class SendView(PutView, _Groups, _Store, Protocol):
    """SEND_MESSAGE and its kin.

    Attributes:
        slices: Does work for large batches a little at a time.
        unique_ids: Names messages that have no name.
        send_fields: What every answer to a send carries.
        added_properties: What is added to the properties of every message, as text.
        added_property_map: The same, as a table.
    """

    slices: Slices
    unique_ids: UniqueIds
    send_fields: dict[str, str]
    added_properties: str
    added_property_map: dict[str, str]

    def refusal(self, *, wait: bool) -> PutMessageStatus | None:
        """Why nothing may be put now; None when it may."""
        ...


class SendBackView(PutView, _Groups, _Store, Protocol):
    """CONSUMER_SEND_MSG_BACK."""


class PullView(_Config, _Store, _Topics, _Groups, _Offsets, _Consumers, Protocol):
    """PULL_MESSAGE.

    Attributes:
        statistics: Hears of what was given.
        pulls: Holds those that find nothing.
    """

    statistics: BrokerStatistics
    pulls: Pulls


class QueryView(_Config, _Store, Protocol):
    """Messages by key and by position."""


class QueueView(_Store, Protocol):
    """How far queues go."""


# --- groups --------------------------------------------------------------------------------------------


class ClientView(_Config, _Topics, _Groups, _Consumers, Protocol):
    """Clients that come and go.

    Attributes:
        producers: Those that send.
    """

    producers: ProducerTable


class PositionView(_Config, _Store, _Topics, _Groups, _Offsets, _Consumers, Protocol):
    """Where groups stand, as their members ask and tell."""


class ResetView(_Config, _Store, _Topics, _Groups, _Offsets, _Consumers, _Waiters, _Persistence, Protocol):
    """Where groups shall stand, as an administrator tells."""


# --- administration ------------------------------------------------------------------------------------


class TopicAdminView(_Config, _Store, _Topics, _Offsets, _Turn, _Persistence, Protocol):
    """Topics by the hand of an administrator."""


class GroupAdminView(_Groups, _Offsets, _Persistence, Protocol):
    """Groups by the hand of an administrator."""


class CleaningView(_Store, _Topics, _Offsets, _Turn, _Persistence, Protocol):
    """Cleaning by the hand of an administrator.

    Attributes:
        cleaning: What deletes files.
    """

    cleaning: Cleaning


class BrokerAdminView(_Config, _Topics, Protocol):
    """The settings and the state of the broker.

    Attributes:
        config_version: Rises when settings are changed by request.
    """

    config_version: DataVersion

    def refresh_settings(self) -> None:
        """Take over settings that are kept in another form."""
        ...

    def runtime_info(self) -> dict[str, str]:
        """What it has done and holds, by Apache's keys."""
        ...
