"""Messages of the timer on their way out: to the topic they were meant for, or through the timer once more.

They keep their properties, and say when they were put into the wheel and when they were taken out. Plays the part of
convert in TimerMessageStore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketpy.errors import MessageDecodeError, StoreCorruptError, StoreError
from rocketpy.logs import get_logger, quote
from rocketpy.message import PropertyName
from rocketpy.seams import wall_ms
from rocketpy.wire.properties import encode_properties
from rocketpy_broker_sim.broker.again import Again, may_go, put_again
from rocketpy_broker_sim.broker.stored import stored_record
from rocketpy_broker_sim.broker.timer.times import delete_key

if TYPE_CHECKING:
    from collections.abc import Collection

    from rocketpy_broker_sim.broker.stored import StoredRecord
    from rocketpy_broker_sim.store.message_store import MessageStore

__all__ = ["NEVER_ENQUEUED", "Delivery", "Outcome"]

NEVER_ENQUEUED: Final = 2**63 - 1
"""In the place of the time at which a message was put into the wheel, for one that never was."""
log = get_logger(__name__)


class Outcome:
    """What became of a message that is dealt with.

    Attributes:
        was_put: Whether something was put that is to be committed.
        topic: The topic that it is for; empty where that is not known.
        key: What recalled it; None when nothing did.
    """

    __slots__ = ("is_done", "key", "topic", "was_put")

    def __init__(self, topic: str = "", *, is_done: bool = True, was_put: bool = False, key: str | None = None) -> None:
        self.topic = topic
        self.is_done = is_done
        self.was_put = was_put
        self.key = key


class Delivery:
    """Delivers the messages of one store.

    Args:
        store: Where they wait, and where they go.
    """

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def deliver(
        self, position: int, size: int, written_ms: int, *, rolls: bool = False, recalled: Collection[str] = ()
    ) -> Outcome:
        """Deliver one message; the caller commits.

        Args:
            position: Where its record stands.
            size: Bytes of the record.
            written_ms: When it was put into the wheel.
            rolls: Whether it is only put into the timer's topic once more.
            recalled: What messages are recalled.

        Raises:
            StoreError: the disk refused to give it, or the store takes nothing now; nothing was put.
        """
        try:
            data = self._store.read(position)
            if data is None or len(data) != size:
                log.warning("a timer message is gone: the log has no record of %d bytes at %d any more", size, position)
                return Outcome()
            record = stored_record(data)
        except (MessageDecodeError, StoreCorruptError) as exc:
            log.error("the timer message at %d is damaged and left out: %s", position, exc)
            return Outcome()
        topic = record.properties.get(PropertyName.REAL_TOPIC, "")
        if recalled:
            key = delete_key(topic, record.properties.get(PropertyName.UNIQUE_KEY, ""))
            if key in recalled:
                return Outcome(topic, key=key)
        _mark(record, written_ms, rolls=rolls)
        return self._put(record, topic, position, rolls=rolls)

    def _put(self, record: StoredRecord, topic: str, position: int, *, rolls: bool) -> Outcome:
        message = record.message
        if not rolls:
            goal = may_go(record.properties)
            if goal is None or PropertyName.TIMER_DEL_UNIQUE_KEY in record.properties:
                log.error("a timer message for no topic is left out: %s", quote(str(record.properties)))
                return Outcome(topic)
            message.topic, message.queue_id = goal
        became, status = put_again(self._store, message)
        if became is Again.NEVER:
            log.error("the timer message at %d cannot be stored in %s and is left out", position, message.topic)
        elif became is Again.LATER:
            raise StoreError(f"the store does not take messages now ({status.name})")
        return Outcome(topic, was_put=became is Again.PUT)


def _mark(record: StoredRecord, written_ms: int, *, rolls: bool) -> None:
    """Say in the properties when it was put in and taken out, and how often it went through."""
    properties = record.properties
    properties[PropertyName.TIMER_ENQUEUE_MS] = str(written_ms)
    if rolls:
        times = properties.get(PropertyName.TIMER_ROLL_TIMES, "0")
        properties[PropertyName.TIMER_ROLL_TIMES] = str(int(times) + 1 if times.isdecimal() else 1)
    properties[PropertyName.TIMER_DEQUEUE_MS] = str(wall_ms())
    record.message.properties = encode_properties(properties)
