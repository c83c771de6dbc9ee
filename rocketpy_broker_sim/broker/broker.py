"""The broker: who it is, and the list of its subsystems. Plays BrokerController.

Here the subsystems are made and told of each other; `opening` starts and stops them. What requests may reach of them
stands in `views`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from rocketpy.remoting.network import TcpNetwork
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
from rocketpy_broker_sim.broker.delays.delay import DelayStage
from rocketpy_broker_sim.broker.flows import Flows
from rocketpy_broker_sim.broker.held_requests.waiters import Bounds, Waiters
from rocketpy_broker_sim.broker.identity import Identity
from rocketpy_broker_sim.broker.lanes import Lanes
from rocketpy_broker_sim.broker.name_servers.topic_announcement import NewTopics
from rocketpy_broker_sim.broker.processors.pull import pull_message
from rocketpy_broker_sim.broker.putting.put_pipeline import PutPipeline, Stage, StageOrder
from rocketpy_broker_sim.broker.putting.store_stage import StoreStage
from rocketpy_broker_sim.broker.readers import Hear, Readers
from rocketpy_broker_sim.broker.router import default_route, held_route, lanes_of, routes_of
from rocketpy_broker_sim.broker.runtime_info import runtime_info
from rocketpy_broker_sim.broker.send_checks import ChecksView, SendChecks
from rocketpy_broker_sim.broker.statistics import BrokerStatistics
from rocketpy_broker_sim.broker.subsystems.clients import Clients
from rocketpy_broker_sim.broker.subsystems.counting import Counting
from rocketpy_broker_sim.broker.subsystems.delays import Delays
from rocketpy_broker_sim.broker.subsystems.filters import Filters
from rocketpy_broker_sim.broker.subsystems.metrics import Metrics, view_of
from rocketpy_broker_sim.broker.subsystems.naming import Naming
from rocketpy_broker_sim.broker.subsystems.port import Port
from rocketpy_broker_sim.broker.subsystems.pulls import Pulls
from rocketpy_broker_sim.broker.subsystems.replying import Replying
from rocketpy_broker_sim.broker.subsystems.saving import Saving
from rocketpy_broker_sim.broker.subsystems.storing import Storing
from rocketpy_broker_sim.broker.subsystems.tables import Tables
from rocketpy_broker_sim.broker.subsystems.timers import TimedMessages
from rocketpy_broker_sim.broker.subsystems.transactions import Transactions
from rocketpy_broker_sim.broker.tables.request_modes import RequestModes
from rocketpy_broker_sim.broker.timer.stage import TimerStage
from rocketpy_broker_sim.broker.transactions.half import HalfStage
from rocketpy_broker_sim.broker.views import (
    CallView,
    ClientView,
    LockView,
    PositionView,
    PullView,
    QueryView,
    QueueView,
    RecallView,
    ReplyView,
    ResetView,
    SendBackView,
    SendView,
    StatsView,
    TimerView,
    TransactionView,
    Views,
)
from rocketpy_broker_sim.serving.memory import ANSWERS, HELD_PULLS, MEMBERSHIP, PUSHED_REPLIES, MemoryBudget
from rocketpy_broker_sim.serving.slices import Slices
from rocketpy_broker_sim.store.clock import StoredClock
from rocketpy_broker_sim.store.message_store import MessageStore

if TYPE_CHECKING:
    from rocketpy.remoting.hooks import RequestHook
    from rocketpy.remoting.limits import ServerLimits
    from rocketpy.remoting.network import Network
    from rocketpy.remoting.server import RemotingServer
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.broker.name_servers.registration import Registration
    from rocketpy_broker_sim.broker.subsystem import Subsystem
    from rocketpy_broker_sim.broker.tables.offsets import ConsumerOffsetTable
    from rocketpy_broker_sim.broker.tables.subscriptions import SubscriptionGroupTable
    from rocketpy_broker_sim.broker.tables.topics import TopicTable
    from rocketpy_broker_sim.config import BrokerConfig

__all__ = ["Broker"]


class Broker:
    """A list of subsystems, and who the broker is. `open_broker` runs it.

    Programs and tests around a broker reach its subsystems by name; requests reach only what their view holds.

    Args:
        config: its settings.
        storage: where it keeps everything.
        hooks: see every request and its answer.
        network: where it listens and dials, TCP when None.
        name_servers: addresses to register with.
        limits: bounds on connections and frames.
        hear: called with everything that can be read from now on; plain functions.

    Attributes:
        identity: Who it is, and what messages and answers carry of it.
        memory: What peers make it keep, and how much that may be.
        slices: What it has to do that grows with what is asked.
        storing: Takes messages and keeps them.
        delays: Delivers what was parked.
        timers: Delivers messages with a time of delivery.
        tables: Topics, groups and offsets.
        filters: Who filters by properties.
        transactions: Knows which transactions have ended, and checks the others.
        saving: Writes the tables.
        counting: Counts messages.
        clients: Who is connected.
        waiters: The requests that are held.
        pulls: The pulls that wait.
        replying: Brings replies to the clients that asked.
        pipeline: Leads messages into the store.
        lanes: Where requests wait for their turn.
        metrics: Shows what all parts have done.
        port: Where they come in.
        naming: Tells the name servers of it.
        subsystems: All of these that are parts, in the order in which they start; they stop the other way round.
        is_killed: Whether it shall end as it stands.
    """

    def __init__(
        self,
        config: BrokerConfig,
        storage: Storage,
        hooks: Sequence[RequestHook] = (),
        *,
        network: Network | None = None,
        name_servers: Sequence[str] = (),
        limits: ServerLimits | None = None,
        hear: Sequence[Hear] = (),
    ) -> None:
        self.config = config
        self.identity = Identity(config)
        self.is_killed = False
        self.memory = MemoryBudget(config.max_kept_bytes if limits is None else limits.max_kept)
        self.slices = Slices(memory=self.memory)
        network = network or TcpNetwork()
        self._keep(storage, network, name_servers, hooks)
        self._serve(network, limits, hear)
        view = view_of(self.identity, self.storing, self.tables, self.clients, self.counting)
        self.metrics = Metrics(config, network, view, lambda: self.subsystems, self.runtime_info)
        self.subsystems: list[Subsystem] = [
            self.storing,
            self.delays,
            self.timers,
            self.tables,
            self.filters,
            self.transactions,
            self.saving,
            self.counting,
            self.clients,
            self.pulls,
            self.replying,
            self.metrics,
            self.port,
            self.naming,
        ]

    def _keep(
        self, storage: Storage, network: Network, name_servers: Sequence[str], hooks: Sequence[RequestHook]
    ) -> None:
        """Make the parts that have something to keep, and what tells the name servers of it."""
        config, memory, identity = self.config, self.memory, self.identity
        store = MessageStore(storage, config.store, clock=StoredClock(trio.current_time))
        self.tables = tables = Tables(config, storage, store, memory)
        self.naming = Naming(config, network, tables.topics, name_servers, lambda: identity.address)
        self.new_topics = NewTopics(self.naming.announce)
        answers = memory.account(ANSWERS)
        self.storing = storing = Storing(store, storage, config, self.naming.announce, hooks, answers)
        self.timers = TimedMessages(config, storage, storing, tables.topics)
        self.delays = Delays(config, storage, storing, tables.topics)
        self.filters = Filters(config, storage, storing, memory)
        gone = self.filters.table.unregister
        self.clients = Clients(config, self.slices, memory.account(MEMBERSHIP), memory, gone)
        producers = self.clients.producers
        self.transactions = Transactions(config, storage, storing, tables, producers, lambda: identity.store_host)
        self.saving = Saving(config, (storing, self.delays, tables, self.filters))
        flows = Flows(trio.current_time, tables.topics)
        self.counting = Counting(BrokerStatistics(trio.current_time), flows, storing, tables.topics)

    def _serve(self, network: Network, limits: ServerLimits | None, hear: Sequence[Hear]) -> None:
        """Make the parts that have to do with those outside."""
        config, memory, topics = self.config, self.memory, self.tables.topics
        bounds = Bounds(number=config.max_held_pulls, number_of_connection=config.max_held_pulls_per_connection)
        self.waiters = Waiters(bounds, memory.account(HELD_PULLS))
        self.replying = Replying(config, memory.account(PUSHED_REPLIES))
        behind = self._stages()
        asked = ChecksView(config, self.identity, topics, self.tables.groups, self.clients.locks)
        checks = SendChecks(asked, behind.values())
        self.pipeline = PutPipeline({StageOrder.CHECKS: checks, **behind})
        self._views = views = self._make_views(checks)
        self.lanes = self._make_lanes(views, hear)
        compiling, pull = self.filters.registry.compiling, partial(pull_message, views.pull)
        self.pulls = Pulls(self.waiters, compiling, self.lanes, pull, topics)
        self.port = Port(
            config,
            network,
            self.lanes,
            limits=limits,
            budget=memory,
            on_open=lambda address: self.identity.settle(address, network.local_ip),
            on_close=self.clients.forget,
            settle=self._settle,
        )

    def _make_lanes(self, views: Views, hear: Sequence[Hear]) -> Lanes:
        """Make the lanes with all who wait for messages: nothing can be read before they are complete."""
        parts = self.counting, self.timers, self.delays, self.transactions
        readers = Readers((*(part.arrived for part in parts), *hear), self.waiters)
        return Lanes(
            lanes_of(self.config),
            routes_of(views),
            default_route(),
            self.storing.turn,
            self.slices,
            self.memory,
            readers=readers,
            again=held_route(views),
        )

    def _stages(self) -> dict[StageOrder, Stage]:
        """The stages of the put pipeline behind the checks."""
        timer = TimerStage(self.config.store, self.timers.count_in, self.storing.queue_refusal)
        return {
            StageOrder.HALF_MESSAGE: HalfStage(self.storing.queue_refusal, timer.refusal),
            StageOrder.TIMER: timer,
            StageOrder.DELAY_LEVEL: DelayStage(self.delays.level_count, self.storing.queue_refusal),
            StageOrder.STORE: StoreStage(self.storing.place, self.config),
        }

    def _make_views(self, checks: SendChecks) -> Views:
        """What each kind of request may reach."""
        config, identity, turn, pipeline = self.config, self.identity, self.storing.turn, self.pipeline
        store, reads, persistence = self.storing.store, self.storing.store.reads, self.saving.persistence
        topics, groups, offsets = self.tables.topics, self.tables.groups, self.tables.offsets
        consumers = self.clients.consumers
        return Views(
            send=self._send_view(checks),
            recall=RecallView(config=config, identity=identity, topics=topics, turn=turn, pipeline=pipeline),
            timer=TimerView(timers=self.timers.timers, metrics=self.timers.metrics, is_on=self.timers.is_on),
            send_back=self._send_back_view(),
            transactions=self._transaction_view(),
            reply=self._reply_view(checks),
            pull=self._pull_view(),
            query=QueryView(config=config, reads=reads, keys=store.keys),
            queue_offset=QueueView(reads=reads),
            client_manage=self._client_view(),
            consumer_manage=PositionView(
                config=config, reads=reads, topics=topics, groups=groups, offsets=offsets, consumers=consumers
            ),
            locks=LockView(locks=self.clients.locks),
            reset_offset=self._reset_view(),
            consume_stats=self._stats_view(),
            client_calls=CallView(
                config=config, reads=reads, topics=topics, groups=groups, consumers=consumers, calls=self.clients.calls
            ),
            admin_topic=TopicAdminView(config, store, topics, offsets, turn, persistence, self.new_topics),
            admin_group=GroupAdminView(
                groups=groups,
                offsets=offsets,
                filters=self.filters.table,
                flows=self.counting.flows,
                persistence=persistence,
            ),
            admin_cleaning=self._cleaning_view(),
            admin_broker=BrokerAdminView(
                config=config, identity=identity, topics=topics, runtime_info=lambda: self.runtime_info()
            ),
            who_consumes=ConsumptionView(identity=identity, offsets=offsets, consumers=consumers),
            producer_list=ProducersView(producers=self.clients.producers),
            topic_stats=TopicStatsView(
                config=config, reads=reads, topics=topics, offsets=offsets, flows=self.counting.flows
            ),
            broker_stats=FlowView(config=config, flows=self.counting.flows),
            offset_tables=self._offset_tables_view(),
            queue_entries=EntriesView(reads=reads, consumers=consumers, filters=self.filters.table),
            request_modes=RequestModeView(topics=topics, groups=groups, modes=RequestModes()),
            unavailable=UnavailableView(store=store),
        )

    def _send_view(self, checks: SendChecks) -> SendView:
        return SendView(
            identity=self.identity,
            store=self.storing.store,
            turn=self.storing.turn,
            pipeline=self.pipeline,
            checks=checks,
            refusal=self.storing.refusal,
            slices=self.slices,
        )

    def _send_back_view(self) -> SendBackView:
        return SendBackView(
            config=self.config,
            identity=self.identity,
            reads=self.storing.store.reads,
            topics=self.tables.topics,
            groups=self.tables.groups,
            turn=self.storing.turn,
            pipeline=self.pipeline,
            flows=self.counting.flows,
        )

    def _transaction_view(self) -> TransactionView:
        return TransactionView(
            config=self.config,
            identity=self.identity,
            store=self.storing.store,
            topics=self.tables.topics,
            turn=self.storing.turn,
            pipeline=self.pipeline,
            ledger=self.transactions.ledger,
            refusal=self.storing.refusal,
        )

    def _reply_view(self, checks: SendChecks) -> ReplyView:
        return ReplyView(
            config=self.config,
            identity=self.identity,
            turn=self.storing.turn,
            pipeline=self.pipeline,
            checks=checks,
            producers=self.clients.producers,
            pushes=self.replying.pushes,
        )

    def _pull_view(self) -> PullView:
        return PullView(
            config=self.config,
            reads=self.storing.store.reads,
            topics=self.tables.topics,
            groups=self.tables.groups,
            offsets=self.tables.offsets,
            consumers=self.clients.consumers,
            statistics=self.counting.statistics,
            flows=self.counting.flows,
            waiters=self.waiters,
            filters=self.filters.registry,
        )

    def _client_view(self) -> ClientView:
        return ClientView(
            config=self.config,
            topics=self.tables.topics,
            groups=self.tables.groups,
            consumers=self.clients.consumers,
            producers=self.clients.producers,
            new_topics=self.new_topics,
            filters=self.filters.registry,
        )

    def _offset_tables_view(self) -> OffsetTablesView:
        return OffsetTablesView(
            reads=self.storing.store.reads,
            topics=self.tables.topics,
            groups=self.tables.groups,
            offsets=self.tables.offsets,
            delay_offsets=self.delays.offsets,
            consumers=self.clients.consumers,
            persistence=self.saving.persistence,
        )

    def _reset_view(self) -> ResetView:
        return ResetView(
            config=self.config,
            reads=self.storing.store.reads,
            topics=self.tables.topics,
            groups=self.tables.groups,
            offsets=self.tables.offsets,
            consumers=self.clients.consumers,
            waiters=self.waiters,
            persistence=self.saving.persistence,
        )

    def _stats_view(self) -> StatsView:
        return StatsView(
            config=self.config,
            identity=self.identity,
            reads=self.storing.store.reads,
            topics=self.tables.topics,
            groups=self.tables.groups,
            offsets=self.tables.offsets,
            consumers=self.clients.consumers,
            group_reads=self.counting.statistics.reads,
        )

    def _cleaning_view(self) -> CleaningView:
        return CleaningView(
            store=self.storing.store,
            topics=self.tables.topics,
            offsets=self.tables.offsets,
            turn=self.storing.turn,
            persistence=self.saving.persistence,
            cleaning=self.storing.cleaning,
        )

    # --- what programs around a broker ask for most ----------------------------------------------------

    @property
    def address(self) -> str:
        """What clients dial, "host:port"; empty until it listens."""
        return self.identity.address

    @property
    def store(self) -> MessageStore:
        """The messages."""
        return self.storing.store

    @property
    def topics(self) -> TopicTable:
        """The topics."""
        return self.tables.topics

    @property
    def groups(self) -> SubscriptionGroupTable:
        """The consumer groups."""
        return self.tables.groups

    @property
    def offsets(self) -> ConsumerOffsetTable:
        """Where groups stand."""
        return self.tables.offsets

    @property
    def server(self) -> RemotingServer | None:
        """What listens; None until it does."""
        return self.port.server

    @property
    def metrics_address(self) -> str:
        """Where `/metrics` and `/healthz` are, "host:port"; empty if they are not shown."""
        return self.metrics.address

    @property
    def registration(self) -> Registration | None:
        """What keeps it known to the name servers; None until it serves."""
        return self.naming.registration

    def runtime_info(self) -> dict[str, str]:
        """What it has done and holds, by Apache's keys: what all its parts measure."""
        return runtime_info(self.config, self.identity.boot_timestamp, self.subsystems)

    async def _settle(self) -> None:
        """The last answers are about to leave: nothing waits any more."""
        for subsystem in reversed(self.subsystems):
            await subsystem.settle()
        self.lanes.finish()

    # --- start and end ---------------------------------------------------------------------------------

    def recover(self) -> None:
        """Read everything. Blocking. When that fails, what was taken is given back.

        Raises:
            StoreError: a part cannot read its files, or they belong to another broker.
        """
        recovered: list[Subsystem] = []
        try:
            for subsystem in self.subsystems:
                subsystem.recover()
                recovered.append(subsystem)
        except BaseException:  # Ctrl-C too: the locks of a store that was opened must not stay
            for subsystem in reversed(recovered):
                subsystem.give_back()
            raise
        self.storing.note_boot()

    def kill(self) -> None:
        """Serve nobody any more, from now on; when its block ends nothing more is said or written.

        What SIGKILL does to the process of a broker, for a broker that shares its process with others.
        """
        self.is_killed = True
        if self.server is not None:
            self.server.close()
