"""The dispatcher: collects the trace records of one client for one trace topic, and sends many in a message.

Records come from any thread, and adding one neither waits nor raises: when the queue is full, records are dropped,
counted, and logged at most once a minute. An internal producer sends them, which is never traced. Plays the part of
AsyncTraceDispatcher.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from rocketpy.client.client_id import new_unique_ids
from rocketpy.client.preparing.outgoing import Preparer
from rocketpy.client.sends import send_drivers
from rocketpy.client.sends.sending import SendCore
from rocketpy.config import ProducerConfig
from rocketpy.logs import Seldom, counted, get_logger
from rocketpy.message import Message, PropertyName
from rocketpy.services import tell_loop

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config.tracing import TracedConfig
    from rocketpy.results import SendResult

__all__ = ["MOST_RECORDS", "TraceDispatcher", "tracing"]

logger = get_logger(__name__)

MOST_RECORDS: Final = 2048
"""The largest number of records that wait; further ones are dropped."""
MOST_BYTES: Final = 128_000
"""The largest body of one message."""
FLUSH_INTERVAL: Final = 5.0
"""Seconds after which records that do not fill a message are sent."""
_IN_FLIGHT: Final = 16
"""The largest number of messages in flight."""
_MOST_KEYS: Final = 16_384
"""The largest size of the keys of a message, in bytes: a broker accepts 32,767 for all properties."""
_TIMEOUT: Final = 5.0
_MOST_GROUP: Final = 200
_numbers = itertools.count(1)


_Record: TypeAlias = tuple[str, str, str]
"""A record that waits: the topic of its message, because records of different topics are sent apart; the text; and its
keys, separated by spaces. A plain tuple, because one is made for each message."""


class TraceDispatcher:
    """Sends the records of one client to one topic.

    Args:
        client: the client, whose connections it uses.
        config: the settings of the first producer or consumer that is traced.
        group: the group of that producer or consumer.
        kind: PRODUCE or CONSUME, for the name of the internal producer, as in Java.

    Attributes:
        topic: the trace topic.
        records: the records that wait.
        before_full: the number of records that may wait before one more makes a full message.
        users: the number of producers and consumers that use it.
        discarded: how many records were dropped because too many waited.
        lost: how many records were in messages that no broker took.
    """

    def __init__(self, client: MQClientInstance, config: TracedConfig, group: str, kind: str) -> None:
        self.topic = config.trace_topic
        self.users = 0
        self.discarded = 0
        self.lost = 0
        self._batch = config.trace_msg_batch_num
        self.before_full = self._batch - 1
        settings = ProducerConfig.of(
            client.config,
            group=f"_INNER_TRACE_PRODUCER-{group[:_MOST_GROUP]}-{kind}-{next(_numbers)}",
            send_timeout=_TIMEOUT,
            # No compression, which takes longer than all other work for a record.
            compress_body_over=2 * MOST_BYTES,
        )
        self._core = SendCore(client, settings)
        self._preparer = Preparer(settings, new_unique_ids(client.network.local_ip()))
        self.records: deque[_Record] = deque()
        self._numbers = itertools.count(1)
        self._full = trio.Event()
        self._is_told = False
        self._thread = get_ident()
        self._token = trio.lowlevel.current_trio_token()
        self._room = trio.Semaphore(_IN_FLIGHT)
        self._flushing = trio.Lock()
        self._scope = trio.CancelScope()
        self._slow: trio.Nursery | None = None
        self._seldom = Seldom(logger, interval=60.0)

    # --- any thread --------------------------------------------------------------------------------------

    def append(self, topic: str, text: str, found_by: str) -> None:
        """Add a record. Never waits, never raises.

        Args:
            topic: the topic of the traced message.
            text: the record.
            found_by: its keys, separated by spaces.
        """
        queue = self.records
        waiting = len(queue)
        if waiting < MOST_RECORDS:
            queue.append((topic, text, found_by))
            if waiting >= self.before_full and not self._is_told:
                self._is_told = True
                self._tell()
            return
        self.discarded = next(self._numbers)
        self._seldom.warning(
            "full",
            "%d trace records wait for %s, so others are dropped: %d so far",
            MOST_RECORDS,
            self.topic,
            self.discarded,
        )

    def append_full(self, topic: str, text: str, found_by: str) -> None:
        """Add a record that makes a full message. In the loop's own thread that is sent at once: to wake a task for it
        would cost more than all else that is done for these records, and break up what the loop has to do.
        """
        queue = self.records
        if len(queue) != self.before_full or get_ident() != self._thread:
            self.append(topic, text, found_by)
            return
        records = [queue.popleft() for _ in range(len(queue))]
        made = [each for alike in _by_topic([*records, (topic, text, found_by)]) for each in _messages(alike)]
        if len(made) > self._room.value:
            queue.extendleft(reversed(records))
            self.append(topic, text, found_by)
            return
        for body, keys, count in made:
            self._room.acquire_nowait()
            self._send(body, keys, count)

    def _tell(self) -> None:
        try:
            tell_loop(self._token, self._wake, idempotent=True)
        except trio.RunFinishedError:
            return  # the loop has ended

    # --- the loop ----------------------------------------------------------------------------------------

    def _wake(self) -> None:
        self._full.set()

    @trio.lowlevel.enable_ki_protection
    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send what gathers, until `stop`."""
        self._core.open()
        with self._scope:
            async with trio.open_nursery() as self._slow:
                task_status.started()
                while True:
                    with trio.move_on_after(FLUSH_INTERVAL):
                        await self._full.wait()
                    is_full = self._full.is_set()
                    self._full, self._is_told = trio.Event(), False
                    await self._send_all(at_least=self._batch if is_full else 1)

    def stop(self) -> None:
        """End it; what waits is not sent."""
        self._core.close()
        self._scope.cancel()

    async def flush(self) -> None:
        """Send all records that wait, and wait for the answers. The caller sets a deadline."""
        async with self._flushing:
            await self._send_all(at_least=1)
            held = 0
            try:
                for _ in range(_IN_FLIGHT):
                    await self._room.acquire()
                    held += 1
            finally:
                for _ in range(held):
                    self._room.release()

    async def _send_all(self, *, at_least: int) -> None:
        """Send messages while at least `at_least` records wait."""
        queue = self.records
        while len(queue) >= at_least:
            records = [queue.popleft() for _ in range(min(self._batch, len(queue)))]
            for alike in _by_topic(records):
                for body, keys, count in _messages(alike):
                    try:
                        self._room.acquire_nowait()  # without a turn of the loop, which costs more than the rest
                    except trio.WouldBlock:
                        await self._room.acquire()
                    self._send(body, keys, count)

    def _send(self, body: bytes, keys: str, count: int) -> None:
        message = Message(self.topic, body)
        message.wire_properties[PropertyName.KEYS] = keys

        def done(outcome: SendResult | BaseException) -> None:
            self._room.release()
            if isinstance(outcome, BaseException):
                self.lost += count
                self._seldom.warning(
                    "lost", "%s could not be sent to %s: %s", counted(count, "trace record"), self.topic, outcome
                )

        try:
            assert self._slow is not None
            outgoing = self._preparer.one(message)
            send_drivers.start_send(
                self._core, outgoing, done, nursery=self._slow, choice=None, tries=3, timeout=_TIMEOUT
            )
        except Exception as error:  # noqa: BLE001  a hook's too: it has no room any more, and harms nobody else
            done(error)


def _by_topic(records: Sequence[_Record]) -> list[Sequence[_Record]]:
    """The records of each topic, by its name."""
    topics = {record[0] for record in records}
    if len(topics) == 1:
        return [records]
    return [[each for each in records if each[0] == topic] for topic in sorted(topics)]


def _messages(records: Sequence[_Record]) -> Iterator[tuple[bytes, str, int]]:
    """The messages for records of one topic: their bodies, keys, and numbers of records."""
    keys = " ".join(dict.fromkeys([found_by for _, _, found_by in records]))
    body = "".join([text for _, text, _ in records]).encode("utf-8", "replace")
    if len(body) <= MOST_BYTES and len(keys) <= _MOST_KEYS and keys.isascii():
        yield body, keys, len(records)
        return
    if len(records) > 1:
        middle = len(records) // 2
        yield from _messages(records[:middle])
        yield from _messages(records[middle:])
        return
    yield body, _fitting(keys.split()), 1


def _fitting(keys: Sequence[str]) -> str:
    """The first keys, as many as a message may have."""
    kept, size = [], 0
    for key in keys:
        size += len(key.encode("utf-8", "replace")) + 1
        if size > _MOST_KEYS:
            break
        kept.append(key)
    return " ".join(kept)


@asynccontextmanager
async def tracing(
    client: MQClientInstance, config: TracedConfig, group: str, kind: str
) -> AsyncIterator[TraceDispatcher]:
    """The dispatcher of a client for a trace topic, as a context; open at least until the producer or consumer is
    closed.

    Leaving the context sends the records that wait, within `close_timeout`.
    """
    dispatcher = client.tracing.get(config.trace_topic)
    is_new = not isinstance(dispatcher, TraceDispatcher)
    if not isinstance(dispatcher, TraceDispatcher):
        dispatcher = client.tracing[config.trace_topic] = TraceDispatcher(client, config, group, kind)
    dispatcher.users += 1
    try:
        if is_new:
            await client.services.start(dispatcher.run)
        yield dispatcher
    finally:
        with trio.move_on_after(config.close_timeout, shield=True):
            await dispatcher.flush()
        dispatcher.users -= 1
        if not dispatcher.users:
            dispatcher.stop()
            client.tracing.pop(dispatcher.topic, None)
