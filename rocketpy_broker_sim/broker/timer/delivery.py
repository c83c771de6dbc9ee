"""Delivery of timer messages: to their topic, or through the timer once more.

Messages keep their properties, and get the times at which they were put into the wheel and taken out of it. Plays the
part of convert in TimerMessageStore.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from rocketpy.errors import MessageDecodeError, StoreCorruptError, StoreError
from rocketpy.logs import get_logger, quote
from rocketpy.message import PropertyName
from rocketpy.seams import wall_ms
from rocketpy.wire.names import TIMER_TOPIC
from rocketpy.wire.properties import CRC_PROPERTY_SIZE, MAX_PROPERTIES_SIZE, encode_properties
from rocketpy_broker_sim.broker.delays.again import Redelivery, may_go, put_again, readable
from rocketpy_broker_sim.broker.putting.stored_records import stored_record
from rocketpy_broker_sim.broker.timer.times import delete_key
from rocketpy_broker_sim.store.put_result import IncomingMessage, MessageRun

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from rocketpy_broker_sim.broker.putting.stored_records import StoredRecord
    from rocketpy_broker_sim.store.message_store import MessageStore

__all__ = ["NEVER_ENQUEUED", "Delivery", "Outcome"]

NEVER_ENQUEUED: Final = 2**63 - 1
"""Replaces the time at which a message was put into the wheel, if it never was."""
_FIRST_WAIT_MS: Final = 1000.0
_LONGEST_WAIT_MS: Final = 10_000.0
"""How long messages wait whose queue cannot be made: twice as long each time."""
_MOST_CLOSED: Final = 1000
"""Queues whose waits are remembered."""
_FEW: Final = 3
"""Up to so many messages are put faster one by one than in columns."""
log = get_logger(__name__)


class Outcome:
    """What is done with a message.

    Attributes:
        topic: Its topic; empty if that is not known.
        key: The key of the recall that applies to it; None without one.
        message: The message to be put; None if there is none.
        was_put: Whether it was put, and must be committed.
        waited_for: The moment that it has waited for because its queue could not be made, by the monotonic clock, ms;
            None if it has not.
        retry_at: The moment that it has to wait for now; None if it has not.
    """

    __slots__ = ("key", "message", "retry_at", "topic", "waited_for", "was_put")

    def __init__(self, topic: str = "", *, key: str | None = None, message: IncomingMessage | None = None) -> None:
        self.topic = topic
        self.key = key
        self.message = message
        self.was_put = False
        self.waited_for: float | None = None
        self.retry_at: float | None = None


class _ClosedQueues:
    """Queues that cannot be made now, because the disk keeps files of a topic that was deleted.

    All messages for such a queue wait for the same moment, and those that come due later line up behind them, so that
    they stay in order and only one of them asks the disk.
    """

    def __init__(self) -> None:
        self._closed: dict[tuple[str, int], tuple[float, float]] = {}  # until when, and how long that wait was, ms

    def until(self, message: IncomingMessage, waited_for: float | None = None) -> float | None:
        """The moment that a message has to wait for; None if there is none, or it has waited for that one."""
        if (message.topic, message.queue_id) not in self._closed:
            return None
        until, _ = self._closed[message.topic, message.queue_id]
        return until if until != waited_for else None

    def close(self, message: IncomingMessage, now: float) -> float:
        """Note that the queue of a message could not be made. Returns when to try it again."""
        queue = message.topic, message.queue_id
        _, wait = self._closed.get(queue, (now, _FIRST_WAIT_MS / 2))
        wait = min(wait * 2, _LONGEST_WAIT_MS)
        if len(self._closed) >= _MOST_CLOSED:
            self._closed.clear()  # they are only tried again sooner
        self._closed[queue] = now + wait, wait
        return now + wait

    def reopen(self, message: IncomingMessage) -> None:
        """Note that the queue of a message is there."""
        if self._closed:
            self._closed.pop((message.topic, message.queue_id), None)


class Delivery:
    """Delivers the messages of one store.

    Args:
        store: The store.
        queues_read: Returns the number of read queues of a topic; 0 for a topic that does not exist.
    """

    def __init__(self, store: MessageStore, queues_read: Callable[[str], int] = lambda topic: 0) -> None:
        self._store = store
        self._queues_read = queues_read
        self._closed = _ClosedQueues()

    def prepare(
        self, position: int, size: int, written_ms: int, *, rolls: bool = False, recalled: Collection[str] = ()
    ) -> Outcome:
        """Prepare one message to be put.

        Args:
            position: The position of its record.
            size: Bytes of the record.
            written_ms: When it was put into the wheel.
            rolls: Whether it is only put into the timer's topic once more.
            recalled: The keys of recalled messages.

        Raises:
            StoreError: the disk refused to read it.
        """
        try:
            data = self._store.reads.read(position, self._size_of_unchecked(size))
            if data is None or len(data) != size:
                log.warning("a timer message is gone: the log has no record of %d bytes at %d", size, position)
                return Outcome()
            record = stored_record(data, encoded=False)
            if (record.head.physical_offset, record.head.total_size) != (position, size):
                raise MessageDecodeError(f"the record is the one of {record.head.physical_offset}", position=0)
        except (MessageDecodeError, StoreCorruptError) as exc:
            log.error("the timer message at %d is damaged and is skipped: %s", position, exc)
            return Outcome()
        topic = record.properties.get(PropertyName.REAL_TOPIC, "")
        if recalled:
            key = delete_key(topic, record.properties.get(PropertyName.UNIQUE_KEY, ""))
            if key in recalled:
                return Outcome(topic, key=key)
        message = record.message
        if not rolls:
            goal = may_go(record.properties)
            if goal is None or PropertyName.TIMER_DEL_UNIQUE_KEY in record.properties:
                log.error("a timer message without a valid topic is skipped: %s", quote(str(record.properties)))
                return Outcome(topic)
            message.topic, message.queue_id = goal[0], readable(self._queues_read(goal[0]), goal[1])
        _mark(record, written_ms, rolls=rolls, room=self._room)
        return Outcome(topic, message=message)

    @property
    def _room(self) -> int:
        """Bytes that the properties of a message may have."""
        return MAX_PROPERTIES_SIZE - (CRC_PROPERTY_SIZE if self._store.config.enabled_append_prop_crc else 0)

    def _size_of_unchecked(self, size: int) -> int | None:
        """The size for a read that does not check the whole record: only a checksum of properties needs that check."""
        return None if self._store.config.enabled_append_prop_crc else size

    # --- putting

    def put_all(self, outcomes: Sequence[Outcome], now: float) -> tuple[int, StoreError | None]:
        """Put prepared messages; the caller commits, and has those wait that have a time for it.

        Args:
            outcomes: The messages.
            now: The monotonic clock, ms.

        Returns:
            How many are done or have to wait, and the error that stopped the next.
        """
        done = 0
        for _, group in groupby(outcomes, key=_sender):
            alike = list(group)
            if self._put_run(alike):
                done += len(alike)
                continue
            for outcome in alike:
                failure = self._put(outcome, now)
                if failure is not None:
                    return done, failure
                done += 1
        return done, None

    def _put_run(self, alike: Sequence[Outcome]) -> bool:
        """Put messages of one sender and topic together. Returns False, having done nothing, if that is impossible."""
        messages = [outcome.message for outcome in alike if outcome.message is not None]
        if not _FEW < len(messages) == len(alike) or messages[0].prepared_transaction_offset:
            return False
        first = messages[0]
        if any(self._closed.until(message) is not None for message in messages):
            return False  # others for that queue may come first
        run = MessageRun(
            first.topic,
            first.flag,
            first.sys_flag,
            first.born_host,
            first.store_host,
            first.reconsume_times,
            [message.queue_id for message in messages],
            [message.body for message in messages],
            [_stored(message.properties) for message in messages],
            [message.born_timestamp for message in messages],
        )
        if self._store.put_run(run) is None:
            return False
        for outcome in alike:
            outcome.was_put = True
        return True

    def _put(self, outcome: Outcome, now: float) -> StoreError | None:
        """Put one message. Returns the error if no message can be put now."""
        message = outcome.message
        if message is None:
            return None
        outcome.retry_at = self._closed.until(message, outcome.waited_for)
        if outcome.retry_at is not None:
            return None
        became, status = put_again(self._store, message)
        if became is Redelivery.NO_QUEUE and message.topic != TIMER_TOPIC:  # what rolls is not overtaken
            outcome.retry_at = self._closed.close(message, now)
            return None
        if became in (Redelivery.LATER, Redelivery.NO_QUEUE):
            return StoreError(f"the store accepts no messages now ({status.name})")
        if became is Redelivery.NEVER:
            log.error("a timer message cannot be stored in %s and is skipped", message.topic)
        self._closed.reopen(message)
        outcome.was_put = became is Redelivery.PUT
        return None


def _sender(outcome: Outcome) -> tuple[object, ...]:
    """What messages must have in common to be put together."""
    message = outcome.message
    if message is None:
        return ()
    return (
        message.topic,
        message.flag,
        message.sys_flag,
        message.born_host,
        message.store_host,
        message.reconsume_times,
        message.prepared_transaction_offset,
    )


def _stored(properties: str | bytes) -> bytes:
    return properties if isinstance(properties, bytes) else properties.encode("utf-8", "replace")


_MARKS = (PropertyName.TIMER_DEQUEUE_MS, PropertyName.TIMER_ENQUEUE_MS, PropertyName.TIMER_ROLL_TIMES)
"""What the timer adds to messages; the first are the least important."""


def _mark(record: StoredRecord, written_ms: int, *, rolls: bool, room: int) -> None:
    """Set the properties that say when it was put into the wheel and taken out, and how often it rolled.

    A message was accepted with what its sender says. Marks for which it has no room are left out.
    """
    properties = record.properties
    properties[PropertyName.TIMER_ENQUEUE_MS] = str(written_ms)
    if rolls:
        times = properties.get(PropertyName.TIMER_ROLL_TIMES, "0")
        properties[PropertyName.TIMER_ROLL_TIMES] = str(int(times) + 1 if times.isdecimal() else 1)
    properties[PropertyName.TIMER_DEQUEUE_MS] = str(wall_ms())
    text = encode_properties(properties)
    for name in _MARKS:
        if len(_stored(text)) <= room:
            break
        properties.pop(name, None)
        text = encode_properties(properties)
    record.message.properties = text
