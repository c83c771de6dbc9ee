"""LocalCluster: name servers and brokers in one trio loop, for tests, examples and demonstrations.

The servers are the real ones, with the same protocol, store and timing; only their files are smaller. Servers can be
stopped and restarted while the cluster runs, on the same port and with the same data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, Unpack

import trio

from rocketpy.errors import ConfigError, ConnectionLostError
from rocketpy.logs import counted
from rocketpy.remoting.network import LOOPBACK, Network
from rocketpy.reprs import cut
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.names import check_group, check_topic, dlq_topic
from rocketpy_broker_sim.cluster.arguments import check_message, check_number, checked_seconds
from rocketpy_broker_sim.cluster.entering import EnteredAsync
from rocketpy_broker_sim.cluster.ground import need_trio, network_of
from rocketpy_broker_sim.cluster.servers import ClusterServers
from rocketpy_broker_sim.cluster.settings import refuse_exposure
from rocketpy_broker_sim.cluster.stored import create_topic, put, read_topic
from rocketpy_broker_sim.cluster.waiting import TIMEOUT, no_group, no_topic, wait_consumed, wait_messages

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from datetime import timedelta

    from rocketpy.message import Message, MessageExt, MessageQueue
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.broker.broker import Broker
    from rocketpy_broker_sim.broker.tables.locks import HeldLock
    from rocketpy_broker_sim.cluster.typed import ClusterSettings
    from rocketpy_broker_sim.namesrv import NameServer

__all__ = ["LocalCluster"]

NOTICE_WITHIN = 1.0
"""Seconds that brokers get to notice that a name server has stopped. Over a silenced link they cannot notice it."""


class LocalCluster(EnteredAsync):
    """Runs for the duration of an ``async with`` block, which begins when every name server knows every broker.

    The default network is TCP: then clients in any process and any language need only an address.
    ``network="memory"`` sends all bytes through streams in memory. It is for clients in the same loop, which must be
    created with ``network=cluster.network``. Its links can be cut and delayed, and on a mock clock, the whole cluster
    runs in virtual time, including its wall clock.

    Args:
        brokers: the number of brokers. All are masters, called broker-a, broker-b, and so on.
        name_servers: the number of name servers.
        data: the directory for all data; None keeps it in memory.
        network: "tcp", "memory", or an existing network.
        insecure: whether `bind_address` may be reachable from other machines. The servers check no credentials.
        metrics_port: the port on which the first broker shows `/metrics` and `/healthz`; the other brokers and then
            the name servers take the ports that follow. 0 takes any free ports, None shows no metrics.
        settings: settings of brokers and name servers in snake case, such as ``auto_create_topic_enable=False``.

    Raises:
        ConfigError: a setting is unknown, or its value is not usable, or the extra `prometheus` is missing.

    Attributes:
        network: The network to pass to clients in the same loop as ``network=``.
        storages: The storage of each broker.
    """

    def __init__(
        self,
        brokers: int = 1,
        name_servers: int = 1,
        *,
        data: str | Path | None = None,
        network: Literal["tcp", "memory"] | Network = "tcp",
        insecure: bool = False,
        metrics_port: int | None = None,
        **settings: Unpack[ClusterSettings],
    ) -> None:
        check_number("brokers", brokers)
        check_number("name_servers", name_servers)
        refuse_exposure(str(settings.get("bind_address", LOOPBACK)), insecure=insecure)
        refuse_exposure(str(settings.get("metrics_prom_exporter_host") or LOOPBACK), insecure=insecure)
        self.network = network_of(network)
        self._servers = ClusterServers(
            brokers, name_servers, data=data, network=self.network, metrics_port=metrics_port, settings=settings
        )
        self.storages: list[Storage] = self._servers.storages
        self._manager: AbstractAsyncContextManager[None] | None = None
        self._sent = 0

    def __repr__(self) -> str:
        """How many servers it has, and where clients find it."""
        return self._shown("LocalCluster")

    def _shown(self, name: str) -> str:
        """The text of a repr, for the class `name`."""
        servers = self._servers
        made = f"{counted(len(servers.brokers), 'broker')}, {counted(len(servers.name_servers), 'name server')}"
        state = "not running" if self._manager is None else f"at {self.name_server_addresses}"
        return cut(f"<{name} of {made}, {state}>")

    # --- what it is made of ----------------------------------------------------------------------------

    @property
    def name_server_addresses(self) -> str:
        """The addresses to pass to clients as `namesrv`, such as ``127.0.0.1:9876;127.0.0.1:9877``."""
        return ";".join(server.address for server in self.name_servers)

    @property
    def metrics_addresses(self) -> list[str]:
        """The addresses of `/metrics` and `/healthz`, first those of the brokers, then those of the name servers."""
        brokers, name_servers = self.brokers, self.name_servers
        found = [*(each.metrics_address for each in brokers), *(each.metrics_address for each in name_servers)]
        return [address for address in found if address]

    @property
    def name_servers(self) -> Sequence[NameServer]:
        """The name servers. For one that is stopped, the object of its last run."""
        return [slot.server for slot in self._servers.name_servers]

    @property
    def brokers(self) -> Sequence[Broker]:
        """The brokers. For one that is stopped, the object of its last run."""
        return [slot.server for slot in self._servers.brokers]

    # --- the whole -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Start all servers.

        Raises:
            ConfigError: the cluster is already running, or there is no trio loop.
            ClientClosedError: this process is a forked child, and the cluster runs in its parent.
            StoreError: the directory is in use by another cluster, or cannot be read and written.
            RequestTimeoutError: the brokers are not registered with the name servers after thirty seconds.
        """
        self._servers.check_process()
        if self._manager is not None:
            raise ConfigError("the cluster is already running")
        need_trio()
        self._manager = self._servers.run()
        try:
            await self._manager.__aenter__()
        except BaseException:
            self._manager = None
            raise
        return self

    async def run(self, *, task_status: trio.TaskStatus[Self] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled: ``cluster = await nursery.start(LocalCluster().run)``.

        Raises:
            ConfigError, ClientClosedError, StoreError, RequestTimeoutError: for the same reasons as `async with`.
        """
        async with self:
            task_status.started(self)
            await trio.sleep_forever()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop all servers: the brokers first, because they unregister from the name servers."""
        manager, self._manager = self._manager, None
        if manager is not None and self._servers.is_ours:  # in a forked child, the files too belong to the parent
            await manager.__aexit__(kind, error, traceback)

    async def wait_registered(self) -> None:
        """Return when every running broker is registered with every running name server.

        Raises:
            RequestTimeoutError: this takes longer than thirty seconds.
            ConfigError: the cluster is not running.
        """
        await self._servers.wait_registered()

    # --- one server ------------------------------------------------------------------------------------

    async def stop_broker(self, number: int) -> None:
        """Stop a broker in good order: it unregisters, answers pending requests, and writes all data.

        Raises:
            ConfigError: there is no such broker, or it is not running.
        """
        await self._servers.broker(number).stop()

    async def kill_broker(self, number: int) -> None:
        """End a broker as SIGKILL would: connections break, pending requests get no answer, nothing more is written.

        Acknowledged messages are there when the broker is started again. Groups consume again what they have consumed
        since the broker last wrote their offsets.

        Raises:
            ConfigError: there is no such broker, or it is not running.
        """
        slot = self._servers.broker(number)
        slot.running.kill()
        await slot.stop()

    async def start_broker(self, number: int) -> Broker:
        """Start a broker again, on its port and with its data. Returns when the name servers know it.

        Raises:
            ConfigError: there is no such broker, or it is already running.
            StoreError: its data cannot be read and written.
            TransportError: its port is in use by another program now.
        """
        broker = await self._servers.broker(number).start(self._servers.nursery())
        await self._servers.wait_registered()
        return broker

    async def restart_broker(self, number: int) -> Broker:
        """Stop a broker and start it again. After `kill_broker`, use `start_broker`.

        Raises:
            ConfigError: there is no such broker, or it is not running.
        """
        await self.stop_broker(number)
        return await self.start_broker(number)

    async def stop_name_server(self, number: int) -> None:
        """Stop a name server. Returns when the brokers have noticed.

        Its routes are lost; the brokers register again when it is back.

        Raises:
            ConfigError: there is no such name server, or it is not running.
        """
        slot = self._servers.name_server(number)
        await slot.stop()
        address = slot.server.address
        with trio.move_on_after(NOTICE_WITHIN):
            for registration in self._servers.registrations():
                await registration.wait_until(lambda known: address not in known)

    async def start_name_server(self, number: int) -> NameServer:
        """Start a name server again, on its port. Returns when the running brokers have registered with it.

        Raises:
            ConfigError: there is no such name server, or it is already running.
            TransportError: its port is in use by another program now.
        """
        server = await self._servers.name_server(number).start(self._servers.nursery())
        for registration in self._servers.registrations():
            registration.topics_changed(())  # registers at once; by itself a broker may take ten seconds
        await self._servers.wait_registered()
        return server

    async def restart_name_server(self, number: int) -> NameServer:
        """Stop a name server and start it again."""
        await self.stop_name_server(number)
        return await self.start_name_server(number)

    # --- topics and messages ---------------------------------------------------------------------------

    async def create_topic(self, topic: str, *, queues: int = 4) -> None:
        """Create a topic on every running broker, or change its number of queues.

        Returns when the name servers know the topic, so that producers and consumers find it at once.

        Args:
            topic: its name.
            queues: the number of queues on each broker, 1 to 1024.

        Raises:
            ConfigError: the name or the number is not usable, or no broker is running.
        """
        check_topic(topic)
        check_number(f"the number of queues of {topic}", queues, 1, 1024)
        create_topic(self._servers.ready_brokers(), topic, queues)
        await self._servers.wait_known(topic, queues)

    async def send(self, message: Message) -> str:
        """Store a message without a producer, and return its id.

        Queues are used in turn; messages with the same sharding key go to the same queue. Faults of sends do not apply.

        Raises:
            ConfigError: no broker is running, or the message asks for something that this broker does not do.
            TopicNotExistError: the topic does not exist, and `auto_create_topic_enable` is off.
        """
        check_message(message)
        message_id = put(self._servers.ready_brokers(), message, self._sent)
        self._sent += 1
        await self._servers.wait_known(message.topic)
        return message_id

    def messages(self, topic: str) -> list[MessageExt]:
        """All messages of a topic, in the order in which they were stored. Reading them consumes nothing.

        For a topic that does not exist, the list is empty.
        """
        check_topic(topic)
        return read_topic(self._servers.ready_brokers(), topic)

    def dead_letters(self, group: str) -> list[MessageExt]:
        """The messages in the dead-letter queue of a group, whose retries all failed."""
        check_group(group)
        return self.messages(dlq_topic(group))

    def queue_locks(self, group: str) -> dict[MessageQueue, HeldLock]:
        """The member of the group that has locked each queue, and when the lock expires.

        Only orderly consumers lock queues.

        Raises:
            ConfigError: the name is not usable, or the cluster is not running.
        """
        check_group(group)
        return {
            queue: lock
            for broker in self._servers.ready_brokers()
            for queue, lock in broker.clients.locks.held(group).items()
        }

    # --- waiting ---------------------------------------------------------------------------------------

    async def wait_messages(
        self, topic: str, count: int = 1, *, timeout: float | timedelta = TIMEOUT
    ) -> list[MessageExt]:
        """Wait until a topic has at least `count` messages, and return all of its messages.

        Raises:
            ConfigError: an argument is not usable, or the cluster is not running.
            WaitTimeoutError: it has fewer after `timeout` seconds.
        """
        check_topic(topic)
        return await self._wait_messages(topic, count, timeout, lambda: no_topic(self._servers.ready_brokers(), topic))

    async def _wait_messages(
        self, topic: str, count: int, timeout: float | timedelta, reason: Callable[[], str]
    ) -> list[MessageExt]:
        check_number("count", count)
        seconds, servers = checked_seconds("timeout", timeout), self._servers
        return await wait_messages(servers.ready_brokers, topic, count, seconds, servers.news.wait, reason)

    async def wait_dead_letters(
        self, group: str, count: int = 1, *, timeout: float | timedelta = TIMEOUT
    ) -> list[MessageExt]:
        """Wait until a group has at least `count` dead letters, and return all of them.

        Raises:
            WaitTimeoutError: there are fewer after `timeout` seconds.
        """
        check_group(group)
        return await self._wait_messages(
            dlq_topic(group), count, timeout, lambda: no_group(self._servers.ready_brokers(), group)
        )

    async def wait_consumed(self, group: str, topic: str, *, timeout: float | timedelta = TIMEOUT) -> None:
        """Wait until a group has consumed all messages of a topic, including those that wait for a retry.

        Messages in the dead-letter queue count as consumed. If the topic does not exist yet, or the group has neither
        subscribed to it nor consumed from it, the call waits for that too. Then, if the topic is empty, everything is
        consumed.

        Raises:
            ConfigError: an argument is not usable, the cluster is not running, or the group broadcasts: then only its
                members know their offsets.
            WaitTimeoutError: after `timeout` seconds, messages are left, or the group or the topic does not exist;
                `missing` of the error says what.
        """
        check_group(group)
        check_topic(topic)
        seconds = checked_seconds("timeout", timeout)
        await wait_consumed(self._servers.ready_brokers, group, topic, seconds, self._servers.news.wait)

    # --- what goes wrong -------------------------------------------------------------------------------

    def refuse_sends(self, times: int = 1, *, code: int = ResponseCode.SYSTEM_BUSY, broker: int | None = None) -> None:
        """Have the next sends of producers refused: nothing is stored, and the answer has the code `code`.

        Args:
            times: how many sends to refuse. Each retry of a producer counts as one.
            code: the response code. Producers retry after some codes, such as SYSTEM_BUSY.
            broker: number of the broker; None for all brokers together.

        Raises:
            ConfigError: an argument is not usable.
        """
        check_number("code", code, 1, 2**31 - 1)
        self._stand_in_front(broker, times)
        self._servers.faults.refuse(times, code, broker)

    def delay_sends(self, seconds: float | timedelta, times: int = 1, *, broker: int | None = None) -> None:
        """Have the next sends stored and answered `seconds` later. See `refuse_sends`."""
        delay = checked_seconds("a delay", seconds)
        self._stand_in_front(broker, times)
        self._servers.faults.delay(times, delay, broker, self._servers.nursery())

    def lose_answers(self, times: int = 1, *, broker: int | None = None) -> None:
        """Have the next sends stored, but not answered: the outcome is unknown to producers. See `refuse_sends`."""
        self._stand_in_front(broker, times)
        self._servers.faults.lose_answers(times, broker)

    def heal(self) -> None:
        """Cancel all faults of sends that have not happened yet."""
        self._servers.faults.heal()

    def _stand_in_front(self, broker: int | None, times: int) -> None:
        self._servers.nursery()
        check_number("times", times)
        if broker is not None:
            self._servers.broker(broker)
        for number, slot in enumerate(self._servers.brokers):
            if slot.is_ready:
                self._servers.faults.attach(slot.server, number)

    # --- connections that break ------------------------------------------------------------------------

    async def cut_connections(self, broker: int | None = None) -> int:
        """Break all client connections of a broker, which keeps running. Returns how many connections there were.

        Pending requests get no answer, whether they were carried out or not. Clients connect again when they need to.
        Connections to name servers are not affected.

        Args:
            broker: number of the broker; None for all running brokers.

        Raises:
            ConfigError: there is no such broker, or it is not running.
        """
        running = self._servers.ready_brokers() if broker is None else [self._servers.broker(broker).running]
        servers = [server.server for server in running if server.server is not None]
        connections = [connection for server in servers for connection in server.connections]
        for connection in connections:
            connection.close(ConnectionLostError("the test cut the connection", address=connection.address))
        for connection in connections:
            await connection.aclose()
        return len(connections)
