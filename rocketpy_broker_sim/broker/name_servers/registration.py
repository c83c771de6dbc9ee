"""Telling the name servers which topics this broker holds, and that it lives.

Every name server has a task of its own: registered at the start, ten seconds later, then at the period of the settings,
at once when topics change and when the connection broke. So one that is down or hangs never keeps the others waiting.
Topics may come and go at every checkpoint: names are kept, and looked up again when their turn comes. Plays the part of
BrokerOuterAPI and of registerBrokerAll in BrokerController.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

import attrs
import trio

from rocketpy.errors import BrokerError, ProtocolError, RequestTimeoutError, TooManyRequestsError, TransportError
from rocketpy.logs import get_logger
from rocketpy.remoting.connection import Connection
from rocketpy.services import ticks
from rocketpy.wire.bodies.registration import Piece
from rocketpy.wire.bodies.route import KVTable
from rocketpy.wire.bodies.topics import DataVersion
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.route import (
    BrokerHeartbeatRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    UnRegisterBrokerRequestHeader,
)
from rocketpy_broker_sim.broker.name_servers.registration_pieces import RegistrationRequests, provisional
from rocketpy_broker_sim.broker.name_servers.topic_announcement import AnnouncementWait, AnnouncementWaits
from rocketpy_broker_sim.serving.slices import in_slices

if TYPE_CHECKING:
    from rocketpy.remoting.pool import ConnectionPool
    from rocketpy.wire.bodies.topics import TopicConfig
    from rocketpy_broker_sim.config import BrokerConfig

__all__ = ["Registration", "Topics"]

logger = get_logger(__name__)

AGAIN_AFTER = 10.0
"""Seconds to the second registration, and to the next one after a failure."""
GATHER = 0.01
"""Seconds in which changes of topics are gathered into one registration."""
_FEW_CHANGES = 1024
"""Names of changed topics that may be kept though the topics are gone."""
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

    def declare_ordered_steps(self, names: Iterable[str]) -> Generator[None, None, None]:
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
    telling: frozenset[str] = frozenset()
    """Topics that it is being told now."""
    version: DataVersion | None = None
    """The state of the table that it knows."""
    declaration: bytes = b""
    """What it answered of topics that are to be consumed in order."""
    ordered: frozenset[str] = frozenset()
    """The same as names."""
    hurry: trio.Event = attrs.Factory(trio.Event)
    connection: Connection | None = None
    waiting: list[AnnouncementWait] = attrs.Factory(list)
    """Waits for what changed."""
    waiting_for_answer: list[AnnouncementWait] = attrs.Factory(list)
    """Waits for what it is being told."""

    def take_changes(self) -> frozenset[str]:
        """Begin to tell it what changed."""
        self.telling, self.changed = frozenset(self.changed), set()
        self.waiting_for_answer, self.waiting = self.waiting_for_answer + self.waiting, []
        return self.telling

    def end_telling(self) -> None:
        """It has answered, or could not be told: nobody waits for that any more."""
        self.telling = frozenset()
        waits, self.waiting_for_answer = self.waiting_for_answer, []
        for each in waits:
            each.note_one()


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
        self._requests = RegistrationRequests(config, address)
        self._waits = AnnouncementWaits()
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
            self._bound_changes(link)
            link.hurry.set()

    def _bound_changes(self, link: _Link) -> None:
        """Keep no more names of topics that are gone than of others, while a name server cannot be told of them."""
        known = self._topics.all()
        if len(link.changed) > _FEW_CHANGES + 2 * len(known):
            link.changed.intersection_update(known)
            link.everything = True

    def when_announced(self, topic: str, done: Callable[[], object]) -> None:
        """Call `done` once the name servers know a topic that `topics_changed` has named.

        At once when there is none that has this broker and lacks the topic, or the broker leaves; after half a second
        in any case.
        """
        if self._scope.cancel_called:
            done()  # no name server is told any more, and nothing ends waits
            return
        links = [link for link in self._links if link.registered]
        later = [link.waiting for link in links if topic in link.changed]
        soon = [link.waiting_for_answer for link in links if topic in link.telling - link.changed]
        if not later and not soon:
            done()
            return
        wait = self._waits.add(len(later) + len(soon), done)
        for waits in later + soon:
            waits.append(wait)

    @trio.lowlevel.enable_ki_protection
    async def serve(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep it registered, until cancelled. Started once a name server has it, or none is left that might."""
        ready = trio.Event()
        pending = {link.address for link in self._links}
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._waits.serve)
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
        self._waits.end_all()

    async def unregister(self) -> None:
        """Stop registering, and unregister from every name server; the caller sets the deadline."""
        self.stop()
        async with trio.open_nursery() as nursery:
            for link in self._links:
                nursery.start_soon(self._unregister, link)

    # --- one name server ---

    @trio.lowlevel.enable_ki_protection
    async def _keep(self, link: _Link, pending: set[str], ready: trio.Event) -> None:
        period = max(10_000, min(self._config.register_name_server_period, 60_000)) / 1000
        next_full = trio.current_time() + AGAIN_AFTER
        full = True
        while True:
            link.hurry = trio.Event()
            done = await self._register(link, full=full)
            pending.discard(link.address)
            if done or not pending:
                ready.set()
            if not done:
                # What broke meanwhile is why it failed. At once again, and again, would be a storm.
                link.hurry = trio.Event()
                next_full = trio.current_time() + AGAIN_AFTER
            with trio.move_on_at(next_full):
                await link.hurry.wait()
                if not link.waiting:
                    await trio.sleep(GATHER)
            # However often topics change: everything is told at the period, which is the sign of life too.
            full = not done or trio.current_time() >= next_full
            if full:
                next_full = trio.current_time() + (period if done else AGAIN_AFTER)

    async def _register(self, link: _Link, *, full: bool) -> bool:
        """Register all topics, or those that changed. Returns whether the name server took it."""
        try:
            connection = await self._connect(link)
            taken = link.take_changes()
            # A name server that does not know this broker takes a single topic for an update and refuses it.
            if full or link.everything or not link.registered or not taken or self._is_gone(taken):
                link.everything = False
                if await self._is_needed(connection, link):
                    await self._send_all(connection, link)
            else:
                await self._send_changes(connection, link, taken)
        except _Refused as exc:
            self._failed(link, exc)
            return False
        finally:
            link.end_telling()
        if not link.registered:
            logger.info("broker %s is registered with %s", self._config.broker_name, link.address)
        link.registered, link.warned = True, False
        self._note_progress()
        return True

    def _is_gone(self, names: Iterable[str]) -> bool:
        """Whether one of these topics is gone, which can only be told by leaving it out of all the others.

        That is no hurry where the others are many: the next period will do, as with Apache's broker.
        """
        known = self._topics.all()
        return len(self._requests.pieces(list(known))) == 1 and not all(name in known for name in names)

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
            link.version = None
            link.hurry.set()
            self._note_progress()

    def _note_progress(self) -> None:
        self._progress.set()
        self._progress = trio.Event()

    def _failed(self, link: _Link, error: Exception) -> None:
        link.registered = False
        link.version = None
        waiting, link.waiting = link.waiting, []
        for each in waiting:
            each.note_one()
        if not link.warned:
            link.warned = True
            logger.warning("cannot register with the name server %s, trying again: %s", link.address, error)

    async def _is_needed(self, connection: Connection, link: _Link) -> bool:
        """Whether the name server lacks the present topics; it is only asked when registering is not forced."""
        if self._config.force_register or not link.registered:
            return True
        answer = await connection.request(self._data_version_query(), timeout=self._timeout)
        if answer.code != 0:
            return True
        return QueryDataVersionResponseHeader.from_ext(answer.ext_fields).changed

    async def _send_all(self, connection: Connection, link: _Link) -> None:
        """Register all topics; what changes in the meantime is told between two pieces.

        Raises:
            BrokerError: the name server refuses them.
        """
        pieces = self._requests.pieces(list(self._topics.all()))
        is_known = link.version == self._topics.data_version
        for index, names in enumerate(pieces):
            piece = Piece(index=index, count=len(pieces))
            if index:
                link.end_telling()
                await self._send_changes_between(connection, link)
            version = self._topics.data_version
            if not piece.is_last and not is_known:
                version = provisional(version, piece)
            await self._send(connection, link, names, version, piece)

    async def _send_changes_between(self, connection: Connection, link: _Link) -> None:
        if link.changed and link.registered:
            await self._send_changes(connection, link, link.take_changes())
            link.end_telling()

    async def _send_changes(self, connection: Connection, link: _Link, names: Iterable[str]) -> None:
        """Register these topics.

        Raises:
            BrokerError: the name server refuses them.
        """
        known = self._topics.all()
        found = sorted(name for name in names if name in known)
        for piece in self._requests.pieces(found) if found else ():
            await self._send(connection, link, piece, self._topics.data_version, Piece())

    async def _send(
        self, connection: Connection, link: _Link, names: Iterable[str], version: DataVersion, piece: Piece
    ) -> None:
        request = await in_slices(self._requests.request(names, self._topics.all().get, version, piece))
        answer = await connection.request(request, timeout=self._timeout)
        if answer.code != 0:
            raise BrokerError.for_code(
                answer.code, answer.remark, address=connection.address, doing="registration of the broker"
            )
        link.version = version
        if answer.body:
            # What operators have declared at the name server: topics to be consumed in order.
            if answer.body != link.declaration:
                link.ordered = frozenset(KVTable.decode(answer.body).table)
                link.declaration = answer.body
            await in_slices(self._topics.declare_ordered_steps(link.ordered))

    @trio.lowlevel.enable_ki_protection
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
            logger.info("the name server %s was not notified that the broker stops: %s", link.address, exc)

    # --- light pings, for name servers that let a replica act as master ---

    @trio.lowlevel.enable_ki_protection
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

    @property
    def _timeout(self) -> float:
        return self._config.register_broker_timeout_mills / 1000
