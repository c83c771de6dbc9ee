"""Shows the messages of a topic, and follows it.

It joins no group and commits nothing, so consumers are not affected. Messages of one queue come in order, and those of
several queues as they arrive. While it follows, it picks up queues and brokers that are added, and tries again if a
broker does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import attrs
import trio

from rocketpy.admin.messages import check_key
from rocketpy.admin.servers import Servers
from rocketpy.cli.traffic.choosing import chosen, matching
from rocketpy.cli.traffic.reading import QueueReader, Wanted
from rocketpy.cli.traffic.starts import Bounds, Start, bounds_of
from rocketpy.client.api.query import query_messages
from rocketpy.consumer.subscription import subscription_data, warn_of_separator
from rocketpy.errors import BrokersFailedError, ConfigError, FilterRefusedError, RocketMQError
from rocketpy.seams import wall_ms
from rocketpy.services import side_by_side, start_whole
from rocketpy.wire.names import check_topic

if TYPE_CHECKING:
    from rocketpy.admin import Admin
    from rocketpy.message import MessageExt, MessageQueue

__all__ = ["Request", "Tail"]

MAX_LAST = 100_000
"""The last messages are kept in memory to be sorted."""
LOOK = 5.0
"""Seconds between two looks for new queues."""
PAUSE = 1.0
"""Seconds before a broker is asked again that did not answer."""
SHORT = 0.2
"""Seconds between two pulls at the end of a queue if the broker does not hold them."""
LAST = 10
"""How many of the last messages are shown by default."""
INDEXED = 64
"""The most messages with one key that each broker returns: the newest ones."""
_ALL_TIME = 2**62

Emit: TypeAlias = Callable[[Sequence["MessageExt"]], None]


@attrs.frozen(kw_only=True)
class Request:
    """What to show of a topic."""

    topic: str
    start: Start = attrs.Factory(Start)
    count: int | None = None
    """How many messages: of the last ones 10 if this is None, otherwise all."""
    follow: bool = False
    """Whether to continue with the messages that arrive."""
    tags: str | None = None
    sql: str | None = None
    key: str | None = None
    brokers: tuple[str, ...] = ()
    """Only these brokers; all if there are none."""
    queues: tuple[int, ...] = ()
    """Only the queues of these numbers."""


class Tail:
    """One look at a topic.

    Args:
        admin: an open Admin.
        request: what to show.
        emit: prints messages.
        note: called with lines about anything else.

    Attributes:
        ready: is set once it is known where to begin in each queue.

    Raises:
        ConfigError: the request cannot be carried out.
    """

    def __init__(self, admin: Admin, request: Request, emit: Emit, note: Callable[[str], None]) -> None:
        check_topic(request.topic)
        if request.tags is not None and request.sql is not None:
            raise ConfigError("pass --tags or --sql, not both")
        if request.count is not None and not 1 <= request.count <= MAX_LAST:
            raise ConfigError(f"the number of messages must be between 1 and {MAX_LAST}, not {request.count}")
        if request.key is not None:
            check_key(request.key)
        self._servers = Servers(admin.client)
        self._request = request
        self._emit = emit
        self._note = note
        self._since = wall_ms()
        since = request.start.value if request.start.word == "time" else 0
        data = subscription_data(request.topic, request.tags, request.sql)
        warn_of_separator(request.topic, request.tags)
        self._wanted = Wanted(data, request.key, since)
        self._known: set[MessageQueue] = set()
        self._readers: dict[MessageQueue, QueueReader] = {}
        self._bounds: dict[MessageQueue, Bounds] = {}
        self._failures: dict[MessageQueue, RocketMQError] = {}
        self._silent: set[str] = set()
        """Brokers that do not answer, and have been reported."""
        self._left = None if request.start.word == "last" else request.count
        self._enough = trio.CancelScope()
        self.ready = trio.Event()

    # --- all of it ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Show the messages, and return at the end of the queues, or never if it follows.

        Raises:
            TopicNotFoundError: the topic does not exist.
            BrokerNotFoundError, ConfigError: the topic has no such broker or queue.
            FilterRefusedError: a broker refuses the SQL expression, or does not filter by SQL.
            BrokersFailedError: some brokers could not be read, and it does not follow.
            RocketMQError: nothing could be read.
        """
        request = self._request
        await self._servers.client.routes.refresh_existing(request.topic)
        queues = self._chosen(await self._servers.client.routes.ensure_subscribe(request.topic))
        self._known.update(queues)
        await side_by_side(self._begin, queues)
        if not self._readers:
            self._report()
        self.ready.set()
        if request.start.word == "last":
            self._show(await self._last(request.count or LAST))
        with self._enough:
            async with trio.open_nursery() as nursery:
                if request.follow:
                    self._start_following(nursery)
                else:
                    for reader in self._readers.values():
                        start_whole(nursery, self._read, reader)
        self._report()

    def _chosen(self, queues: Sequence[MessageQueue]) -> tuple[MessageQueue, ...]:
        return chosen(queues, self._request.topic, self._request.brokers, self._request.queues)

    async def _begin(self, queue: MessageQueue) -> None:
        """Find where to begin in a queue."""
        try:
            await self._place(queue, self._request.start, self._wanted)
        except FilterRefusedError:
            raise
        except RocketMQError as error:
            self._failures[queue] = error

    async def _place(self, queue: MessageQueue, start: Start, wanted: Wanted) -> QueueReader:
        reader = QueueReader(self._servers, queue, wanted, self._note)
        address = reader.address()
        await reader.check(address)
        bounds = self._bounds[queue] = await bounds_of(self._servers, address, queue, start)
        if bounds.begin > bounds.end:
            self._note(f"{queue} ends at offset {bounds.end}, before {bounds.begin}")
        reader.position = min(bounds.begin, bounds.end)
        self._readers[queue] = reader
        return reader

    def _report(self) -> None:
        """Raise what went wrong.

        Raises:
            BrokersFailedError: some of several brokers could not be read.
            RocketMQError: the only broker could not be read.
        """
        failures = {queue.broker_name: error for queue, error in self._failures.items()}
        if not failures:
            return
        done = sorted({queue.broker_name for queue in self._readers} - failures.keys())
        if len(failures) == 1 and not done:
            raise failures.popitem()[1]
        raise BrokersFailedError(f"reading {self._request.topic}", failures=failures, done=done)

    def _show(self, messages: Sequence[MessageExt]) -> None:
        """Print messages, up to the number that was asked for."""
        if self._left is not None:
            messages = messages[: self._left]
            self._left -= len(messages)
        if messages:
            self._emit(messages)
        if self._left == 0:
            self._enough.cancel()

    # --- what is there --------------------------------------------------------------------------------

    async def _read(self, reader: QueueReader) -> None:
        """Show the messages of a queue up to the end that it had."""
        end = self._bounds[reader.queue].end
        try:
            while reader.position < end:
                messages, is_end = await reader.next()
                self._show([each for each in messages if each.queue_offset < end])
                if is_end:
                    break
        except FilterRefusedError:
            raise
        except RocketMQError as error:
            self._failures[reader.queue] = error

    async def _last(self, count: int) -> list[MessageExt]:
        """The last messages of all queues, sorted by store time."""
        found: list[MessageExt] = []
        request, readers = self._request, [*self._readers.values()]
        if request.key is not None and request.sql is None and count <= INDEXED:
            found, readers = await self._last_with_key(request.key, count)

        async def collect(reader: QueueReader) -> None:
            bounds = self._bounds[reader.queue]
            try:
                found.extend(await reader.last(bounds.least, bounds.end, count))
            except FilterRefusedError:
                raise
            except RocketMQError as error:
                self._failures[reader.queue] = error

        await side_by_side(collect, readers)
        for queue, reader in self._readers.items():
            reader.position = self._bounds[queue].end
        return sorted(found, key=lambda each: (each.store_timestamp, each.queue, each.queue_offset))[-count:]

    async def _last_with_key(self, key: str, count: int) -> tuple[list[MessageExt], list[QueueReader]]:
        """The last messages with a key, by the index of the brokers.

        Returns also the queues that have to be read, since their brokers have returned as many messages as they can,
        and too few of these are wanted.
        """
        found: list[MessageExt] = []
        unclear: list[QueueReader] = []
        brokers: dict[str, list[QueueReader]] = {}
        for queue, reader in self._readers.items():
            brokers.setdefault(queue.broker_name, []).append(reader)

        async def ask(name: str) -> None:
            try:
                messages = await self._indexed(key, name, brokers[name][0].address())
            except RocketMQError as error:
                self._failures |= {reader.queue: error for reader in brokers[name]}
                return
            wanted = [
                each
                for each in self._wanted.of(messages)
                if each.queue in self._readers and each.queue_offset < self._bounds[each.queue].end
            ]
            if len(messages) < INDEXED or len(wanted) >= count:
                found.extend(wanted)
            else:
                unclear.extend(brokers[name])

        await side_by_side(ask, brokers)
        return found, unclear

    async def _indexed(self, key: str, broker_name: str, address: str) -> Sequence[MessageExt]:
        """The last messages that the index of a broker has for a key; some of them have another one."""
        return await query_messages(
            self._servers.client.pool,
            address,
            self._request.topic,
            key,
            begin=0,
            end=_ALL_TIME,
            count=INDEXED,
            broker_name=broker_name,
            timeout=self._servers.timeout,
        )

    # --- what arrives ---------------------------------------------------------------------------------

    def _start_following(self, nursery: trio.Nursery) -> None:
        """Follow every queue, also those that could not be read so far and those that are added."""
        failures, self._failures = self._failures, {}
        for reader in self._readers.values():
            start_whole(nursery, self._follow, reader)
        for queue, error in failures.items():
            self._lost(queue, error)
            if queue not in self._readers:
                start_whole(nursery, self._join, queue, self._request.start)
        start_whole(nursery, self._look_for_queues, nursery)

    async def _follow(self, reader: QueueReader) -> None:
        """Show the messages of a queue as they arrive."""
        while True:
            began = trio.current_time()
            try:
                messages, is_end = await reader.next(hold=True)
            except FilterRefusedError:
                raise
            except RocketMQError as error:
                await self._pause(reader.queue, error)
                continue
            self._answers(reader.queue)
            self._show(messages)
            if is_end and trio.current_time() - began < SHORT:
                await trio.sleep(SHORT)  # this broker does not hold pulls

    async def _join(self, queue: MessageQueue, start: Start) -> None:
        """Follow a queue that has been added, or could not be read at the beginning."""
        wanted = self._wanted
        if start.word == "last":
            start, wanted = Start("time", self._since), attrs.evolve(wanted, since=self._since)
        while True:
            try:
                reader = await self._place(queue, start, wanted)
                break
            except FilterRefusedError:
                raise
            except RocketMQError as error:
                await self._pause(queue, error)
        await self._follow(reader)

    async def _look_for_queues(self, nursery: trio.Nursery) -> None:
        """Follow the queues that are added."""
        routes, topic = self._servers.client.routes, self._request.topic
        while True:
            await trio.sleep(LOOK)
            await self._refresh()
            present = routes.subscribe_queues(topic) or ()
            for queue in {*matching(present, self._request.brokers, self._request.queues)} - self._known:
                self._known.add(queue)
                self._note(f"following {queue} too")
                start_whole(nursery, self._join, queue, Start())

    # --- brokers that do not answer -------------------------------------------------------------------

    async def _pause(self, queue: MessageQueue, error: RocketMQError) -> None:
        """Report a broker, wait a little, and look up whether it has moved."""
        self._lost(queue, error)
        await trio.sleep(PAUSE)
        await self._refresh()

    async def _refresh(self) -> None:
        with suppress(RocketMQError):  # the addresses that are known are still tried
            await self._servers.client.routes.refresh_existing(self._request.topic)

    def _lost(self, queue: MessageQueue, error: RocketMQError) -> None:
        if queue.broker_name not in self._silent:
            self._silent.add(queue.broker_name)
            self._note(f"{queue} cannot be read now: {error}; trying again every second")

    def _answers(self, queue: MessageQueue) -> None:
        if queue.broker_name in self._silent:
            self._silent.discard(queue.broker_name)
            self._note(f"{queue.broker_name} can be read again")
