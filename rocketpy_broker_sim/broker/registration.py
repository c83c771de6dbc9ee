"""Telling the name servers which topics this broker holds, and that it lives.

Every name server has a task of its own: registered at the start, ten seconds later, then at the period of the settings,
at once when topics change and when the connection broke. So one that is down or hangs never keeps the others waiting.
Plays the part of BrokerOuterAPI and of registerBrokerAll in BrokerController.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Protocol

import attrs
import trio

from rocketpy.errors import BrokerError, ProtocolError, RequestTimeoutError, TooManyRequestsError, TransportError
from rocketpy.logs import get_logger
from rocketpy.remoting.connection import Connection
from rocketpy.services import ticks
from rocketpy.wire.bodies.registration import RegisterBrokerBody, TopicConfigAndMappingSerializeWrapper
from rocketpy.wire.bodies.route import KVTable
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.route import (
    BrokerHeartbeatRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    UnRegisterBrokerRequestHeader,
)

if TYPE_CHECKING:
    from rocketpy.remoting.pool import ConnectionPool
    from rocketpy.wire.bodies.topics import DataVersion, TopicConfig
    from rocketpy_broker_sim.config import BrokerConfig

__all__ = ["Registration", "Topics"]

logger = get_logger(__name__)

AGAIN_AFTER = 10.0
"""Seconds to the second registration, and to the next one after a failure."""
GATHER = 0.01
"""Seconds in which changes of topics are gathered into one registration."""
_READ_WRITE = 6
_Refused = (BrokerError, ProtocolError, TransportError, RequestTimeoutError, TooManyRequestsError)


class Topics(Protocol):
    """What is registered."""

    @property
    def data_version(self) -> DataVersion:
        """The state of the table."""
        ...

    def all(self) -> Mapping[str, TopicConfig]:
        """All topics by name."""
        ...

    def declare_ordered(self, names: Iterable[str]) -> None:
        """These topics are to be consumed in order, where they are known."""
        ...


@attrs.define(eq=False)
class _Link:
    """What is known of one name server."""

    address: str
    registered: bool = False
    warned: bool = False
    changed: set[str] = attrs.Factory(set)
    """Topics that changed since it was told last."""
    everything: bool = False
    """Whether something that is told with every topic changed since then."""
    hurry: trio.Event = attrs.Factory(trio.Event)
    connection: Connection | None = None


class Registration:
    """Keeps one broker registered with every name server.

    Args:
        config: the broker's settings.
        address: what clients are to dial, "host:port".
        topics: what it holds.
        pool: connections to the name servers.
        name_servers: their addresses.
    """

    def __init__(
        self, config: BrokerConfig, address: str, topics: Topics, pool: ConnectionPool, name_servers: Iterable[str]
    ) -> None:
        self._config = config
        self._address = address
        self._topics = topics
        self._pool = pool
        self._links = [_Link(each) for each in name_servers]
        self._scope = trio.CancelScope()
        self._progress = trio.Event()

    @property
    def registered_with(self) -> list[str]:
        """The name servers that have this broker now, as far as it knows."""
        return [link.address for link in self._links if link.registered]

    def topics_changed(self, names: Iterable[str]) -> None:
        """Register these topics soon; all of them when none is named."""
        names = list(names)
        for link in self._links:
            link.changed.update(names)
            link.everything = link.everything or not names
            link.hurry.set()

    async def serve(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep it registered, until cancelled. Started once a name server has it, or none is left that might."""
        ready = trio.Event()
        pending = {link.address for link in self._links}
        with self._scope:
            async with trio.open_nursery() as nursery:
                for link in self._links:
                    nursery.start_soon(self._keep, link, pending, ready)
                    if self._config.enable_slave_acting_master:
                        nursery.start_soon(self._ping, link)
                if self._links:
                    await ready.wait()
                task_status.started()
                await trio.sleep_forever()

    async def wait_until(self, condition: Callable[[set[str]], bool]) -> None:
        """Return when a condition holds for the name servers that have this broker."""
        while not condition(set(self.registered_with)):
            await self._progress.wait()

    def stop(self) -> None:
        """Stop registering, without a word."""
        self._scope.cancel()

    async def unregister(self) -> None:
        """Stop to register and say goodbye to every name server; the caller sets the deadline."""
        self.stop()
        async with trio.open_nursery() as nursery:
            for link in self._links:
                nursery.start_soon(self._unregister, link)

    # --- one name server ---

    async def _keep(self, link: _Link, pending: set[str], ready: trio.Event) -> None:
        period = max(10_000, min(self._config.register_name_server_period, 60_000)) / 1000
        full, first = True, True
        while True:
            link.hurry = trio.Event()
            done = await self._register(link, full=full)
            pending.discard(link.address)
            if done or not pending:
                ready.set()
            if not done:
                # What broke meanwhile is why it failed. At once again, and again, would be a storm.
                link.hurry = trio.Event()
            with trio.move_on_after(period if done and not first else AGAIN_AFTER) as slept:
                await link.hurry.wait()
                await trio.sleep(GATHER)
            full, first = not done or slept.cancelled_caught, False

    async def _register(self, link: _Link, *, full: bool) -> bool:
        """Register all topics, or those that changed. Returns whether the name server took it."""
        names, link.changed = link.changed, set()
        known = self._topics.all()
        # A name server that does not know this broker takes a single topic for an update and refuses it, and a topic
        # that is gone can only be told by leaving it out.
        full = full or link.everything or not link.registered or not names or not names <= known.keys()
        link.everything = False
        try:
            connection = await self._connect(link)
            if full and not await self._is_needed(connection, link):
                return True
            await self._send(connection, list(known.values()) if full else [known[name] for name in names])
        except _Refused as exc:
            link.changed |= names
            self._failed(link, exc)
            return False
        if not link.registered:
            logger.info("broker %s is registered with %s", self._config.broker_name, link.address)
        link.registered, link.warned = True, False
        self._note_progress()
        return True

    async def _connect(self, link: _Link) -> Connection:
        connection = await self._pool.get(link.address, timeout=self._timeout)
        if connection is not link.connection:
            link.connection = connection
            # The name server forgets a broker whose connection closes.
            connection.add_close_callback(lambda closed: self._lost(link, closed))
        return connection

    def _lost(self, link: _Link, connection: Connection) -> None:
        if link.connection is connection:
            link.connection = None
            link.registered = False
            link.hurry.set()
            self._note_progress()

    def _note_progress(self) -> None:
        self._progress.set()
        self._progress = trio.Event()

    def _failed(self, link: _Link, error: Exception) -> None:
        link.registered = False
        if not link.warned:
            link.warned = True
            logger.warning("cannot register with the name server %s, trying on: %s", link.address, error)

    async def _is_needed(self, connection: Connection, link: _Link) -> bool:
        """Whether the name server lacks the present topics; it is only asked when registering is not forced."""
        if self._config.force_register or not link.registered:
            return True
        answer = await connection.request(self._data_version_query(), timeout=self._timeout)
        if answer.code != 0:
            return True
        return QueryDataVersionResponseHeader.from_ext(answer.ext_fields).changed

    async def _send(self, connection: Connection, topics: list[TopicConfig]) -> None:
        """Register topics.

        Raises:
            BrokerError: the name server refuses them.
        """
        answer = await connection.request(self._registration(topics), timeout=self._timeout)
        if answer.code != 0:
            raise BrokerError.for_code(
                answer.code, answer.remark, address=connection.address, doing="registration of the broker"
            )
        if answer.body:
            # What operators have declared at the name server: topics to be consumed in order.
            self._topics.declare_ordered(KVTable.decode(answer.body).table)

    async def _unregister(self, link: _Link) -> None:
        connection = self._pool.nowait(link.address)
        if connection is None:
            return
        config = self._config
        header = UnRegisterBrokerRequestHeader(
            broker_name=config.broker_name,
            broker_addr=self._address,
            cluster_name=config.broker_cluster_name,
            broker_id=config.broker_id,
        )
        link.connection = None
        try:
            await connection.request(
                RemotingCommand(RequestCode.UNREGISTER_BROKER, header.to_ext()), timeout=self._timeout
            )
        except _Refused as exc:
            logger.info("the name server %s did not hear that the broker stops: %s", link.address, exc)

    # --- light pings, for name servers that let a replica act as master ---

    async def _ping(self, link: _Link) -> None:
        async for _ in ticks(self._config.broker_heartbeat_interval / 1000):
            connection = self._pool.nowait(link.address)
            if connection is not None and link.registered:
                command = self._data_version_query() if self._config.compatible_with_old_name_srv else self._heartbeat()
                command.flag = RemotingCommand.oneway(0).flag
                try:
                    connection.send_oneway(command)
                except (TransportError, TooManyRequestsError) as exc:
                    logger.info("the name server %s was not pinged: %s", link.address, exc)

    def _heartbeat(self) -> RemotingCommand:
        config = self._config
        header = BrokerHeartbeatRequestHeader(
            cluster_name=config.broker_cluster_name,
            broker_addr=self._address,
            broker_name=config.broker_name,
            broker_id=config.broker_id,
            heartbeat_timeout_mills=config.broker_not_active_timeout_millis,
        )
        return RemotingCommand(RequestCode.BROKER_HEARTBEAT, header.to_ext())

    def _data_version_query(self) -> RemotingCommand:
        config = self._config
        header = QueryDataVersionRequestHeader(
            broker_name=config.broker_name,
            broker_addr=self._address,
            cluster_name=config.broker_cluster_name,
            broker_id=config.broker_id,
        )
        return RemotingCommand(RequestCode.QUERY_DATA_VERSION, header.to_ext(), body=self._topics.data_version.encode())

    # --- what is sent ---

    @property
    def _timeout(self) -> float:
        return self._config.register_broker_timeout_mills / 1000

    def _registration(self, topics: list[TopicConfig]) -> RemotingCommand:
        config = self._config
        wrapper = TopicConfigAndMappingSerializeWrapper(
            data_version=self._topics.data_version,
            topic_config_table={topic.topic_name: self._advertised(topic) for topic in topics},
        )
        payload = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)
        # Name servers of 4.x cannot read attributes in the compressed form, and none looks at them.
        packed = config.compressed_register
        body = payload.encode_compressed(with_attributes=False) if packed else payload.encode()
        host, _, port = self._address.rpartition(":")
        header = RegisterBrokerRequestHeader(
            broker_name=config.broker_name,
            broker_addr=self._address,
            cluster_name=config.broker_cluster_name,
            ha_server_addr=f"{host}:{int(port) + 1}",
            broker_id=config.broker_id,
            heartbeat_timeout_millis=config.broker_not_active_timeout_millis
            if config.enable_slave_acting_master
            else None,
            enable_acting_master=config.enable_slave_acting_master,
            compressed=config.compressed_register,
            body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
        )
        return RemotingCommand(RequestCode.REGISTER_BROKER, header.to_ext(), body=body)

    def _advertised(self, topic: TopicConfig) -> TopicConfig:
        """The topic with no more permissions than the broker itself has."""
        permission = self._config.broker_permission
        if permission & _READ_WRITE == _READ_WRITE:
            return topic
        advertised = copy(topic)
        advertised.perm &= permission
        return advertised
