"""LocalCluster: name servers and brokers in one trio loop, for tests, examples and demonstrations.

Everything of it is the real thing (protocol, store, timing); small are only its files. Servers can be stopped and
started again while the cluster runs, on the same port and with the same data.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeVar, Unpack

import trio

from rocketpy.errors import ClientClosedError, ConfigError, RequestTimeoutError
from rocketpy.logs import counted
from rocketpy.remoting.network import LOOPBACK, Network
from rocketpy.reprs import cut
from rocketpy.services import open_services
from rocketpy.wire.hosts import parse_address
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.cluster.arguments import check_number, check_slot
from rocketpy_broker_sim.cluster.calendar import calendar
from rocketpy_broker_sim.cluster.contents import Contents
from rocketpy_broker_sim.cluster.entering import EnteredAsync
from rocketpy_broker_sim.cluster.ground import need_trio, network_of, storage_of
from rocketpy_broker_sim.cluster.server_slot import ServerSlot
from rocketpy_broker_sim.cluster.settings import broker_names, broker_settings, name_server_settings, refuse_exposure
from rocketpy_broker_sim.namesrv import open_name_server

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.broker.broker import Broker
    from rocketpy_broker_sim.broker.registration import Registration
    from rocketpy_broker_sim.cluster.typed import ClusterSettings
    from rocketpy_broker_sim.namesrv import NameServer

__all__ = ["LocalCluster"]

READY_WITHIN = 30.0
"""Seconds until every broker has to be registered with every name server."""
NOTICE_WITHIN = 1.0
"""Seconds that brokers get to notice that a name server has stopped; on a link that is silenced they cannot."""
T = TypeVar("T")


class LocalCluster(EnteredAsync, Contents):
    """Runs while the block of ``async with`` does; ready when every name server knows every broker.

    It speaks TCP unless told otherwise, because then an address is all that a client needs, in whatever process or
    language it is. ``network="memory"`` keeps all bytes in the loop: clients in the same loop are given
    ``network=cluster.network``, links can be cut and delayed, and a mock clock rules the time of everything, the
    calendar included.

    Args:
        brokers: how many brokers, all of them masters: broker-a, broker-b, and so on.
        name_servers: how many name servers.
        data: the directory where everything is kept; in memory when None.
        network: "tcp", "memory", or a network that exists already.
        insecure: whether `bind_address` may be one that other machines reach. There are no credentials.
        settings: those of brokers and name servers in snake case, for instance ``auto_create_topic_enable=False``.

    Raises:
        ConfigError: a setting is not known or not usable.

    Attributes:
        network: What clients in the same loop may be given as ``network=``.
        storages: Where each broker keeps its data.
    """

    def __init__(
        self,
        brokers: int = 1,
        name_servers: int = 1,
        *,
        data: str | Path | None = None,
        network: Literal["tcp", "memory"] | Network = "tcp",
        insecure: bool = False,
        **settings: Unpack[ClusterSettings],
    ) -> None:
        check_number("brokers", brokers)
        check_number("name_servers", name_servers)
        refuse_exposure(str(settings.get("bind_address", LOOPBACK)), insecure=insecure)
        self.network = network_of(network)
        names = broker_names(brokers, settings)
        self.storages: list[Storage] = [storage_of(data, name) for name in names]
        self._settings = settings
        # Made here to find mistakes before anything runs; the ports are those of the first run.
        self._broker_configs = [broker_settings(settings, name, 0) for name in names]
        self._name_server_configs = [name_server_settings(settings, 0) for _ in range(name_servers)]
        self._name_server_storages = [storage_of(data, f"namesrv-{number}") for number in range(name_servers)]
        super().__init__(
            [
                ServerSlot(f"broker {number} ({name})", partial(self._open_broker, number))
                for number, name in enumerate(names)
            ],
            [
                ServerSlot(f"name server {number}", partial(self._open_name_server, number))
                for number in range(name_servers)
            ],
        )
        self._services: trio.Nursery | None = None
        self._manager: AbstractAsyncContextManager[None] | None = None
        self._pid = 0

    def __repr__(self) -> str:
        """What it is made of, and where clients find it."""
        return self._shown("LocalCluster")

    def _shown(self, name: str) -> str:
        """What a repr shows of it, under the name of a class."""
        made = f"{counted(len(self._brokers), 'broker')}, {counted(len(self._name_servers), 'name server')}"
        state = "not running" if self._manager is None else f"at {self.name_server_addresses}"
        return cut(f"<{name} of {made}, {state}>")

    # --- what it is made of ----------------------------------------------------------------------------

    @property
    def name_server_addresses(self) -> str:
        """What clients are told as `namesrv`, such as ``127.0.0.1:9876;127.0.0.1:9877``."""
        return ";".join(server.address for server in self.name_servers)

    @property
    def name_servers(self) -> Sequence[NameServer]:
        """The name servers; of one that is stopped, what it was."""
        return [slot.server for slot in self._name_servers]

    @property
    def brokers(self) -> Sequence[Broker]:
        """The brokers; of one that is stopped, what it was."""
        return [slot.server for slot in self._brokers]

    # --- the whole -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Start everything.

        Raises:
            ConfigError: it runs already, or no trio loop runs here.
            ClientClosedError: it runs in the parent of this process.
            StoreError: the directory is in use by another cluster, or cannot be read and written.
            RequestTimeoutError: it is not ready in time.
        """
        self._check_process()
        if self._manager is not None:
            raise ConfigError("the cluster runs already")
        need_trio()
        self._manager, self._pid = self._run(), os.getpid()
        try:
            await self._manager.__aenter__()
        except BaseException:
            self._manager = None
            raise
        return self

    async def run(self, *, task_status: trio.TaskStatus[Self] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until this is cancelled: ``cluster = await nursery.start(LocalCluster().run)``.

        Raises:
            ConfigError, ClientClosedError, StoreError, RequestTimeoutError: as entering with `async with` does.
        """
        async with self:
            task_status.started(self)
            await trio.sleep_forever()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop everything: the brokers, and then the name servers from which they unregister."""
        manager, self._manager = self._manager, None
        if manager is not None and self._pid == os.getpid():  # in a child all of it, the files too, is the parent's
            await manager.__aexit__(kind, error, traceback)

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        with calendar():
            async with open_services() as self._services:
                async with self._serving():
                    yield

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        try:
            for number in range(len(self._name_servers)):
                await self._start_name_server(number)
            for slot in self._brokers:
                await slot.start(self._nursery())
            await self.wait_registered()
            yield
        finally:
            await _stop(self._brokers)
            await _stop(self._name_servers)
            self._services = None
            self._note_news()  # to those who wait for something in it

    async def wait_registered(self) -> None:
        """Return when every broker that runs is registered with every name server that runs.

        Raises:
            RequestTimeoutError: that takes longer than thirty seconds.
            ConfigError: the cluster does not run.
        """
        self._nursery()
        addresses = [slot.server.address for slot in self._name_servers if slot.is_running]
        with trio.move_on_after(READY_WITHIN) as scope:
            for registration in self._registrations():
                await registration.wait_until(lambda known: known.issuperset(addresses))
        if scope.cancelled_caught:
            raise RequestTimeoutError(
                f"the brokers are not registered with {', '.join(addresses)} within {READY_WITHIN:g} s: "
                "the log says what hinders them",
                timeout=READY_WITHIN,
            )

    # --- one server ------------------------------------------------------------------------------------

    async def stop_broker(self, number: int) -> None:
        """Stop a broker as its operator would: it unregisters, answers what it has accepted, and writes everything.

        Raises:
            ConfigError: it does not run, or there is no such broker.
        """
        await self._broker(number).stop()

    async def kill_broker(self, number: int) -> None:
        """End a broker as SIGKILL would: connections break, nothing that was taken is answered or written any more.

        Messages that it had acknowledged are there when it is started again. What groups had consumed since it wrote
        their offsets the last time they consume again.

        Raises:
            ConfigError: it does not run, or there is no such broker.
        """
        slot = self._broker(number)
        slot.running.kill()
        await slot.stop()

    async def start_broker(self, number: int) -> Broker:
        """Start a broker again, on its port and with its data; returns when the name servers know it.

        Raises:
            ConfigError: it runs already, or there is no such broker.
            StoreError: its data cannot be read and written.
            TransportError: its port was taken meanwhile.
        """
        broker = await self._broker(number).start(self._nursery())
        await self.wait_registered()
        return broker

    async def restart_broker(self, number: int) -> Broker:
        """Stop a broker and start it again; one that was killed is started with `start_broker`.

        Raises:
            ConfigError: it does not run, or there is no such broker.
        """
        await self.stop_broker(number)
        return await self.start_broker(number)

    async def stop_name_server(self, number: int) -> None:
        """Stop a name server; returns when the brokers have noticed.

        What it knew of them is gone; they tell it again when it is back.

        Raises:
            ConfigError: it does not run, or there is no such name server.
        """
        slot = self._name_server(number)
        await slot.stop()
        address = slot.server.address
        with trio.move_on_after(NOTICE_WITHIN):
            for registration in self._registrations():
                await registration.wait_until(lambda known: address not in known)

    async def start_name_server(self, number: int) -> NameServer:
        """Start a name server again, on its port; returns when the brokers that run have registered with it.

        Raises:
            ConfigError: it runs already, or there is no such name server.
            TransportError: its port was taken meanwhile.
        """
        server = await self._start_name_server(number)
        for registration in self._registrations():
            registration.topics_changed(())  # they would try by themselves within ten seconds
        await self.wait_registered()
        return server

    async def restart_name_server(self, number: int) -> NameServer:
        """Stop a name server and start it again."""
        await self.stop_name_server(number)
        return await self.start_name_server(number)

    def _registrations(self) -> list[Registration]:
        """The registrations of the brokers that run."""
        running = [slot.server.registration for slot in self._brokers if slot.is_running]
        return [registration for registration in running if registration is not None]

    def _broker(self, number: int) -> ServerSlot[Broker]:
        self._nursery()
        check_slot("broker", number, len(self._brokers))
        return self._brokers[number]

    def _name_server(self, number: int) -> ServerSlot[NameServer]:
        self._nursery()
        check_slot("name server", number, len(self._name_servers))
        return self._name_servers[number]

    async def _start_name_server(self, number: int) -> NameServer:
        return await self._name_server(number).start(self._nursery())

    def _nursery(self) -> trio.Nursery:
        self._check_process()
        return super()._nursery() if self._services is None else self._services

    def _check_process(self) -> None:
        if self._manager is not None and self._pid != os.getpid():
            raise ClientClosedError(
                f"the cluster runs in process {self._pid}, and this is its child {os.getpid()} after a fork: clients "
                "here reach it at its addresses, everything else is for the parent to do"
            )

    @asynccontextmanager
    async def _open_name_server(self, number: int) -> AsyncIterator[NameServer]:
        config, storage = self._name_server_configs[number], self._name_server_storages[number]
        async with open_name_server(config, network=self.network, storage=storage) as server:
            config.server.listen_port = parse_address(server.address)[1]
            yield server

    @asynccontextmanager
    async def _open_broker(self, number: int) -> AsyncIterator[Broker]:
        config, storage = self._broker_configs[number], self.storages[number]
        addresses = [server.address for server in self.name_servers]
        async with open_broker(config, network=self.network, storage=storage, name_servers=addresses) as broker:
            config.server.listen_port = parse_address(broker.address)[1]
            self._opened(broker, number)
            yield broker


async def _stop(slots: Sequence[ServerSlot[T]]) -> None:
    """Stop together what runs."""
    for slot in slots:
        slot.leave()
    for slot in slots:
        await slot.wait_left()
