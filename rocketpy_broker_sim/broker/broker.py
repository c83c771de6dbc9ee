"""The broker: who it is, and the list of its subsystems. Plays BrokerController.

Here the subsystems are made and told of each other; `opening` starts and stops them. What requests may reach of them
stands in `views`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import trio

from rocketpy.remoting.network import TcpNetwork
from rocketpy_broker_sim.broker.delay import DelayStage
from rocketpy_broker_sim.broker.hearing import FirstHearings
from rocketpy_broker_sim.broker.identity import Identity
from rocketpy_broker_sim.broker.lanes import Lanes
from rocketpy_broker_sim.broker.processors.pull import pull_again, pull_message
from rocketpy_broker_sim.broker.put_pipeline import Place, PutPipeline, Stage
from rocketpy_broker_sim.broker.putting import StoreStage
from rocketpy_broker_sim.broker.router import default_route, lanes_of, routes_of
from rocketpy_broker_sim.broker.runtime_info import runtime_info
from rocketpy_broker_sim.broker.send_checks import ChecksView, SendChecks
from rocketpy_broker_sim.broker.statistics import BrokerStatistics
from rocketpy_broker_sim.broker.subsystems.clients import Clients
from rocketpy_broker_sim.broker.subsystems.counting import Counting
from rocketpy_broker_sim.broker.subsystems.delays import Delays
from rocketpy_broker_sim.broker.subsystems.filters import Filters
from rocketpy_broker_sim.broker.subsystems.naming import Naming
from rocketpy_broker_sim.broker.subsystems.port import Port
from rocketpy_broker_sim.broker.subsystems.pulls import Pulls
from rocketpy_broker_sim.broker.subsystems.replying import Replying
from rocketpy_broker_sim.broker.subsystems.saving import Saving
from rocketpy_broker_sim.broker.subsystems.storing import Storing
from rocketpy_broker_sim.broker.subsystems.tables import Tables
from rocketpy_broker_sim.broker.subsystems.timers import Timers
from rocketpy_broker_sim.broker.subsystems.transactions import Transactions
from rocketpy_broker_sim.broker.timer.stage import TimerStage
from rocketpy_broker_sim.broker.transactions.half import HalfStage
from rocketpy_broker_sim.broker.views import (
    BrokerAdminView,
    CallView,
    CleaningView,
    ClientView,
    GroupAdminView,
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
    TopicAdminView,
    TransactionView,
    Views,
)
from rocketpy_broker_sim.serving.memory import ANSWERS, HELD_PULLS, MEMBERSHIP, PUSHED_REPLIES, MemoryBudget
from rocketpy_broker_sim.serving.slices import Slices

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.hooks import RequestHook
    from rocketpy.remoting.limits import ServerLimits
    from rocketpy.remoting.network import Network
    from rocketpy.remoting.server import RemotingServer
    from rocketpy.seams import Storage
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.registration import Registration
    from rocketpy_broker_sim.broker.subsystem import Subsystem
    from rocketpy_broker_sim.broker.tables.offsets import ConsumerOffsetTable
    from rocketpy_broker_sim.broker.tables.subscriptions import SubscriptionGroupTable
    from rocketpy_broker_sim.broker.tables.topics import TopicTable
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.store.message_store import MessageStore

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

    Attributes:
        identity: Who it is, and what messages and answers carry of it.
        memory: What peers make it keep, and how much that may be.
        slices: What it has to do that grows with what is asked.
        storing: Takes messages and keeps them.
        delays: Delivers what was put aside.
        timers: Delivers messages with a time of delivery.
        tables: Topics, groups and offsets.
        filters: Who filters by properties.
        transactions: Knows which transactions have ended, and checks the others.
        saving: Writes the tables.
        counting: Counts messages.
        clients: Who is connected.
        pulls: The pulls that wait.
        replying: Brings replies to the clients that asked.
        pipeline: Leads messages into the store.
        lanes: Where requests wait for their turn.
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
    ) -> None:
        self.config = config
        self.identity = Identity(config)
        self.is_killed = False
        self.memory = MemoryBudget(config.max_kept_bytes if limits is None else limits.max_kept)
        self.slices = Slices(memory=self.memory)
        self._keep(storage, hooks)
        self._serve(network or TcpNetwork(), name_servers, limits)
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
            self.port,
            self.naming,
        ]

    def _keep(self, storage: Storage, hooks: Sequence[RequestHook]) -> None:
        """Make the parts that have something to keep."""
        config, statistics = self.config, BrokerStatistics(trio.current_time)
        answers = self.memory.account(ANSWERS)
        self.storing = storing = Storing(storage, config, statistics, self._hear, hooks, answers)
        self.tables = Tables(config, storage, storing.store, self.memory)
        self.timers = Timers(config, storage, storing, self.tables.topics)
        self.delays = Delays(config, storage, storing, self.tables.topics)
        self.filters = Filters(config, storage, storing, self.memory)
        self.transactions = Transactions(config, storage, storing, self.tables, lambda: self.identity.store_host)
        self.saving = Saving(config, (storing, self.delays, self.tables, self.filters))
        self.counting = Counting(statistics, storing)

    def _serve(self, network: Network, name_servers: Sequence[str], limits: ServerLimits | None) -> None:
        """Make the parts that have to do with those outside."""
        config, turn, topics = self.config, self.storing.turn, self.tables.topics
        gone = self.filters.table.unregister
        self.clients = Clients(config, self.slices, self.memory.account(MEMBERSHIP), self.memory, gone)
        self.transactions.let_ask(self.clients.producers)
        self.pulls = Pulls(config, self._resume, turn, topics, self.memory.account(HELD_PULLS))
        self.replying = Replying(config, self.memory.account(PUSHED_REPLIES))
        behind = self._stages()
        asked = ChecksView(config, self.identity, topics, self.tables.groups, self.clients.locks)
        checks = SendChecks(asked, behind.values())
        self.pipeline = PutPipeline({Place.CHECKS: checks, **behind})
        self._views = self._make_views(checks)
        self.lanes = Lanes(lanes_of(config), routes_of(self._views), default_route(), turn, self.slices, self.memory)
        self.port = Port(
            config,
            network,
            self.lanes,
            limits=limits,
            budget=self.memory,
            on_open=lambda address: self.identity.settle(address, network.local_ip),
            on_close=self.clients.forget,
            settle=self._settle,
        )
        self.naming = Naming(config, network, topics, name_servers, lambda: self.identity.address)

    def _stages(self) -> dict[Place, Stage]:
        """The stages of the put pipeline behind the checks."""
        timer = TimerStage(self.config.store, self.timers.count_in, self.storing.queue_refusal)
        return {
            Place.HALF_MESSAGE: HalfStage(self.storing.queue_refusal, timer.refusal),
            Place.TIMER: timer,
            Place.DELAY_LEVEL: DelayStage(self.delays.level_count, self.storing.queue_refusal),
            Place.STORE: StoreStage(self.storing.place, self.config),
        }

    def _make_views(self, checks: SendChecks) -> Views:
        """What each kind of request may reach."""
        config, identity, statistics = self.config, self.identity, self.counting.statistics
        store, turn, cleaning = self.storing.store, self.storing.turn, self.storing.cleaning
        reads, topics, groups, offsets = store.reads, self.tables.topics, self.tables.groups, self.tables.offsets
        consumers, producers = self.clients.consumers, self.clients.producers
        filters = self.filters.registry
        pipeline, persistence, waiters = self.pipeline, self.saving.persistence, self.pulls.waiters
        return Views(
            send=SendView(identity, store, turn, pipeline, checks, self.storing.refusal, self.slices),
            recall=RecallView(config, identity, topics, turn, pipeline),
            timer=TimerView(self.timers.timers, self.timers.metrics, self.timers.is_on),
            send_back=SendBackView(config, identity, reads, topics, groups, turn, pipeline),
            transactions=TransactionView(
                config, identity, store, topics, turn, pipeline, self.transactions.ledger, self.storing.refusal
            ),
            reply=ReplyView(config, identity, turn, pipeline, checks, producers, self.replying.pushes),
            pull=PullView(
                config,
                reads,
                topics,
                groups,
                offsets,
                consumers,
                statistics,
                self.pulls.hold,
                filters,
                self._pull_later,
            ),
            query=QueryView(config, reads, store.keys),
            queue_offset=QueueView(reads),
            client_manage=ClientView(config, topics, groups, consumers, producers, FirstHearings(self._hear), filters),
            consumer_manage=PositionView(config, reads, topics, groups, offsets, consumers),
            locks=LockView(self.clients.locks),
            reset_offset=ResetView(config, reads, topics, groups, offsets, consumers, waiters, persistence),
            consume_stats=StatsView(config, identity, reads, topics, groups, offsets, consumers, statistics.reads),
            client_calls=CallView(config, reads, topics, groups, consumers, self.clients.calls),
            admin_topic=TopicAdminView(config, store, topics, offsets, turn, persistence),
            admin_group=GroupAdminView(groups, offsets, persistence),
            cleaning=CleaningView(store, topics, offsets, turn, persistence, cleaning),
            admin_broker=BrokerAdminView(config, identity, topics, lambda: self.runtime_info()),
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
    def registration(self) -> Registration | None:
        """What keeps it known to the name servers; None until it serves."""
        return self.naming.registration

    def runtime_info(self) -> dict[str, str]:
        """What it has done and holds, by Apache's keys: what all its parts measure."""
        return runtime_info(self.config, self.identity.boot_timestamp, self.subsystems)

    # --- what parts say to others that are made later --------------------------------------------------

    def _hear(self, topic: str, done: Callable[[], object]) -> None:
        self.naming.hear(topic, done)

    def _resume(self, connection: Connection, request: RemotingCommand) -> None:
        """A pull that was held goes on, in the lane of pulls."""
        self.lanes.submit("pull", self._pull_again, connection, request)

    def _pull_later(self, connection: Connection, request: RemotingCommand) -> None:
        """A pull whose expression has been compiled begins, in the lane of pulls. The caller finishes the turn."""
        self.lanes.submit("pull", self._pull, connection, request)

    def _pull(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        return pull_message(self._views.pull, connection, request)

    def _pull_again(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        return pull_again(self._views.pull, connection, request)

    async def _settle(self) -> None:
        """The last answers are about to leave: nothing waits any more."""
        for subsystem in reversed(self.subsystems):
            await subsystem.settle()
        self.storing.turn.finish()

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
