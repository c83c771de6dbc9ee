"""What each kind of request may reach of a broker: a small object for each processor module.

A view holds the tables and services that its processors use and nothing else. It is made once, when the broker is;
it holds neither the broker nor any of its subsystems. In tests a simple object with these attributes does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.admin_views import (
        BrokerAdminView,
        CleaningView,
        ConsumptionView,
        EntriesView,
        FlowView,
        GroupAdminView,
        OffsetTablesView,
        ProducersView,
        RequestModeView,
        TopicAdminView,
        TopicStatsView,
        UnavailableView,
    )
    from rocketpy_broker_sim.broker.filters.filter_registry import FilterRegistry
    from rocketpy_broker_sim.broker.flows import Flows
    from rocketpy_broker_sim.broker.held_requests.waiters import Waiters
    from rocketpy_broker_sim.broker.identity import Identity
    from rocketpy_broker_sim.broker.name_servers.topic_announcement import NewTopics
    from rocketpy_broker_sim.broker.persistence import Persistence
    from rocketpy_broker_sim.broker.putting.put_pipeline import PutPipeline
    from rocketpy_broker_sim.broker.send_checks import SendChecks
    from rocketpy_broker_sim.broker.statistics import BrokerStatistics
    from rocketpy_broker_sim.broker.tables.consumers import ConsumerTable
    from rocketpy_broker_sim.broker.tables.group_reads import GroupReads
    from rocketpy_broker_sim.broker.tables.locks import QueueLocks
    from rocketpy_broker_sim.broker.tables.offsets import ConsumerOffsetTable
    from rocketpy_broker_sim.broker.tables.producers import ProducerTable
    from rocketpy_broker_sim.broker.tables.subscriptions import SubscriptionGroupTable
    from rocketpy_broker_sim.broker.tables.timer_metrics import TimerMetricsTable
    from rocketpy_broker_sim.broker.tables.topics import TopicTable
    from rocketpy_broker_sim.broker.to_clients.calling import ClientCalls
    from rocketpy_broker_sim.broker.to_clients.reply_pushes import ReplyPushes
    from rocketpy_broker_sim.broker.transactions.ledger import Ledger
    from rocketpy_broker_sim.broker.turn import Turn
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.serving.slices import Slices
    from rocketpy_broker_sim.store.key_queries import KeyQueries
    from rocketpy_broker_sim.store.message_reads import MessageReads
    from rocketpy_broker_sim.store.message_store import MessageStore
    from rocketpy_broker_sim.store.put_result import PutMessageStatus
    from rocketpy_broker_sim.store.timer.store import TimerStore

__all__ = [
    "CallView",
    "ClientView",
    "LockView",
    "PositionView",
    "PullView",
    "QueryView",
    "QueueView",
    "RecallView",
    "Refusal",
    "ReplyView",
    "ResetView",
    "SendBackView",
    "SendView",
    "StatsView",
    "TimerView",
    "TransactionView",
    "Views",
]


class Refusal(Protocol):
    """Says why nothing can be put."""

    def __call__(self, *, wait: bool) -> PutMessageStatus | None:
        """Why nothing may be put now whose answer has to wait for the disk, or has not; None when it may."""
        ...


# --- messages ------------------------------------------------------------------------------------------


class SendView(NamedTuple):
    """SEND_MESSAGE and its kin.

    Attributes:
        identity: Who the broker is.
        store: The messages.
        turn: What processors run in; it writes what they put.
        pipeline: Leads messages into the store.
        checks: Its first stage, which a run of plain sends asks by itself.
        refusal: Says why nothing may be put now.
        slices: Does work for large batches a little at a time.
    """

    identity: Identity
    store: MessageStore
    turn: Turn
    pipeline: PutPipeline
    checks: SendChecks
    refusal: Refusal
    slices: Slices


class RecallView(NamedTuple):
    """RECALL_MESSAGE.

    Attributes:
        config: The settings.
        identity: Who the broker is.
        topics: The topics.
        turn: What processors run in; it writes what they put.
        pipeline: Leads recalls into the store.
    """

    config: BrokerConfig
    identity: Identity
    topics: TopicTable
    turn: Turn
    pipeline: PutPipeline


class TimerView(NamedTuple):
    """GET_TIMER_CHECK_POINT and GET_TIMER_METRICS.

    Attributes:
        timers: Wheel and log of the timer.
        metrics: The number of waiting messages, by topic.
        is_on: Whether there is a timer.
    """

    timers: TimerStore
    metrics: TimerMetricsTable
    is_on: bool


class SendBackView(NamedTuple):
    """CONSUMER_SEND_MSG_BACK.

    Attributes:
        config: The settings.
        identity: Who the broker is.
        reads: Messages, offsets and times, for reading.
        topics: The topics.
        groups: The consumer groups.
        turn: What processors run in; it writes what they put.
        pipeline: Leads messages into the store.
        flows: Counts them.
    """

    config: BrokerConfig
    identity: Identity
    reads: MessageReads
    topics: TopicTable
    groups: SubscriptionGroupTable
    turn: Turn
    pipeline: PutPipeline
    flows: Flows


class TransactionView(NamedTuple):
    """END_TRANSACTION and RESUME_CHECK_HALF_MESSAGE.

    Attributes:
        config: The settings.
        identity: Who the broker is.
        store: The messages.
        topics: The topics.
        turn: What processors run in; it writes what they put.
        pipeline: Leads messages into the store.
        ledger: Knows which transactions have ended.
        refusal: Says why nothing may be put now.
    """

    config: BrokerConfig
    identity: Identity
    store: MessageStore
    topics: TopicTable
    turn: Turn
    pipeline: PutPipeline
    ledger: Ledger
    refusal: Refusal


class ReplyView(NamedTuple):
    """SEND_REPLY_MESSAGE.

    Attributes:
        config: The settings.
        identity: Who the broker is.
        turn: What processors run in; it writes what they put.
        pipeline: Leads messages into the store.
        checks: Its first stage, which finds the queue of a reply.
        producers: The clients that may have made the request.
        pushes: Pushes replies to them.
    """

    config: BrokerConfig
    identity: Identity
    turn: Turn
    pipeline: PutPipeline
    checks: SendChecks
    producers: ProducerTable
    pushes: ReplyPushes


class PullView(NamedTuple):
    """PULL_MESSAGE.

    Attributes:
        config: The settings.
        reads: Messages, offsets and times, for reading.
        topics: The topics.
        groups: The consumer groups.
        offsets: Where groups stand.
        consumers: The members of consumer groups.
        statistics: Counts what was given.
        flows: Counts it by queue and group.
        waiters: The held requests; keeps a pull that finds nothing.
        filters: Which groups filter by properties.
    """

    config: BrokerConfig
    reads: MessageReads
    topics: TopicTable
    groups: SubscriptionGroupTable
    offsets: ConsumerOffsetTable
    consumers: ConsumerTable
    statistics: BrokerStatistics
    flows: Flows
    waiters: Waiters
    filters: FilterRegistry


class QueryView(NamedTuple):
    """Messages by key and by position.

    Attributes:
        config: The settings.
        reads: Messages, offsets and times, for reading.
        keys: Messages by their keys.
    """

    config: BrokerConfig
    reads: MessageReads
    keys: KeyQueries


class QueueView(NamedTuple):
    """How far queues go.

    Attributes:
        reads: Messages, offsets and times, for reading.
    """

    reads: MessageReads


# --- groups --------------------------------------------------------------------------------------------


class ClientView(NamedTuple):
    """Clients that come and go.

    Attributes:
        config: The settings.
        topics: The topics.
        groups: The consumer groups.
        consumers: The members of consumer groups.
        producers: Those that send.
        new_topics: Those that the name servers do not know yet.
        filters: Which groups filter by properties.
    """

    config: BrokerConfig
    topics: TopicTable
    groups: SubscriptionGroupTable
    consumers: ConsumerTable
    producers: ProducerTable
    new_topics: NewTopics
    filters: FilterRegistry


class PositionView(NamedTuple):
    """Where groups stand, as their members ask and tell.

    Attributes:
        config: The settings.
        reads: Messages, offsets and times, for reading.
        topics: The topics.
        groups: The consumer groups.
        offsets: Where groups stand.
        consumers: The members of consumer groups.
    """

    config: BrokerConfig
    reads: MessageReads
    topics: TopicTable
    groups: SubscriptionGroupTable
    offsets: ConsumerOffsetTable
    consumers: ConsumerTable


class LockView(NamedTuple):
    """Locks on queues, for ordered consumption.

    Attributes:
        locks: Which member of a group holds which queue.
    """

    locks: QueueLocks


class StatsView(NamedTuple):
    """The offsets and the lag of groups.

    Attributes:
        config: The settings.
        identity: Who the broker is.
        reads: Messages, offsets and times, for reading.
        topics: The topics.
        groups: The consumer groups.
        offsets: Where groups stand.
        consumers: The members of consumer groups.
        group_reads: What groups received lately, and the offsets up to which they have pulled.
    """

    config: BrokerConfig
    identity: Identity
    reads: MessageReads
    topics: TopicTable
    groups: SubscriptionGroupTable
    offsets: ConsumerOffsetTable
    consumers: ConsumerTable
    group_reads: GroupReads


class CallView(NamedTuple):
    """What is asked of clients on behalf of administrators.

    Attributes:
        config: The settings.
        reads: Messages, offsets and times, for reading.
        topics: The topics.
        groups: The consumer groups.
        consumers: The members of consumer groups.
        calls: Those that are under way.
    """

    config: BrokerConfig
    reads: MessageReads
    topics: TopicTable
    groups: SubscriptionGroupTable
    consumers: ConsumerTable
    calls: ClientCalls


class ResetView(NamedTuple):
    """Where groups shall stand, as an administrator tells.

    Attributes:
        config: The settings.
        reads: Messages, offsets and times, for reading.
        topics: The topics.
        groups: The consumer groups.
        offsets: Where groups stand.
        consumers: The members of consumer groups.
        waiters: The held pulls; those of the group in these queues are answered.
        persistence: Writes the tables.
    """

    config: BrokerConfig
    reads: MessageReads
    topics: TopicTable
    groups: SubscriptionGroupTable
    offsets: ConsumerOffsetTable
    consumers: ConsumerTable
    waiters: Waiters
    persistence: Persistence


class Views(NamedTuple):
    """The views of one broker; each is named after the processor module that gets it, which its class describes."""

    send: SendView
    """For `send`."""
    recall: RecallView
    """For `recall`."""
    timer: TimerView
    """For `timers`."""
    send_back: SendBackView
    """For `send_back`."""
    transactions: TransactionView
    """For `end_transaction`."""
    reply: ReplyView
    """For `reply`."""
    pull: PullView
    """For `pull`."""
    query: QueryView
    """For `query`."""
    queue_offset: QueueView
    """For `queue_offset`."""
    client_manage: ClientView
    """For `client_manage`."""
    consumer_manage: PositionView
    """For `consumer_manage`."""
    locks: LockView
    """For `locks`."""
    reset_offset: ResetView
    """For `reset_offset`."""
    consume_stats: StatsView
    """For `consume_stats`."""
    client_calls: CallView
    """For `client_calls`."""
    admin_topic: TopicAdminView
    """For `admin_topic`."""
    admin_group: GroupAdminView
    """For `admin_group`."""
    admin_cleaning: CleaningView
    """For `admin_cleaning`."""
    admin_broker: BrokerAdminView
    """For `admin_broker`."""
    who_consumes: ConsumptionView
    """For `who_consumes`."""
    producer_list: ProducersView
    """For `producer_list`."""
    topic_stats: TopicStatsView
    """For `topic_stats`."""
    broker_stats: FlowView
    """For `broker_stats`."""
    offset_tables: OffsetTablesView
    """For `offset_tables`."""
    queue_entries: EntriesView
    """For `queue_entries`."""
    request_modes: RequestModeView
    """For `request_modes`."""
    unavailable: UnavailableView
    """For `unavailable`."""
