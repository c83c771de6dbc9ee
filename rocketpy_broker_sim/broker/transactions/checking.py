"""CheckService: asks producers about transactions that have not ended, and discards those that never end.

At every interval, the service goes through the open half messages. A half message that is old enough is copied to the
end of the half topic, with its number of checks increased, and a live producer of its group is asked about the copy. If
the message asks for a later first check, it is copied too, so that it does not hold up the others. After
`transactionCheckMax` checks it is discarded: it goes to a topic of its own. Copies are on the disk before a producer is
asked and before the progress is noted, so that after a power loss the service may ask again, but loses no transaction.
Plays the part of TransactionalMessageCheckService, AbstractTransactionalMessageCheckListener, and
TransactionalMessageServiceImpl.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import trio

from rocketpy.errors import StoreError
from rocketpy.logs import Seldom, get_logger
from rocketpy.message import PropertyName
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.names import TRANSACTION_DISCARD_TOPIC, TRANSACTION_HALF_TOPIC
from rocketpy_broker_sim.broker.transactions.half import (
    HALF_QUEUE,
    check_times,
    copy_to_half_topic,
    discarded,
    first_offset,
    immunity_ms,
    is_copy,
    since_stored,
    transaction_key,
)
from rocketpy_broker_sim.broker.transactions.reading import half_messages
from rocketpy_broker_sim.broker.transactions.window import MOST_SUCCESSORS, Mark
from rocketpy_broker_sim.serving.slices import in_slices
from rocketpy_broker_sim.store.put_result import PutMessageStatus

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.putting.stored_records import StoredRecord
    from rocketpy_broker_sim.broker.tables.topics import TopicTable
    from rocketpy_broker_sim.broker.transactions.ledger import Ledger
    from rocketpy_broker_sim.broker.transactions.window import Key
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.store.message_store import MessageStore
    from rocketpy_broker_sim.store.put_result import IncomingMessage, PutMessageResult

__all__ = ["Asked", "CheckService"]

log = get_logger(__name__)

A_STEP = 8
"""Half messages that are examined in one step; what the step puts is written at its end."""
A_STRETCH = 256
"""Checks that are collected before waiting for the disk."""
_BYTES_A_STRETCH = 4 * 1024 * 1024
_HOUR_MS = 3_600_000
_ENDED_IN_THIS_RUN = (Mark.COMMITTED, Mark.ROLLED_BACK)
_ENDED = (*_ENDED_IN_THIS_RUN, Mark.ENDED)
_NEVER_STORABLE = (PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED)


class Asked(NamedTuple):
    """A half message whose producer will be asked.

    Attributes:
        record: The record that was read; its properties are those of the copy.
        copy: The place of the copy.
    """

    record: StoredRecord
    copy: PutMessageResult


class _Then(enum.Enum):
    """What to do with a half message."""

    WAIT = enum.auto()
    """It is not old enough, and those after it are younger."""
    PASS = enum.auto()
    """It asks for a later first check."""
    CHECK = enum.auto()
    DISCARD = enum.auto()


class CheckService:
    """Checks the half messages of one broker.

    Args:
        config: the settings.
        store: has the half messages.
        topics: gets the topic of discarded ones.
        ledger: the state of transactions.
        place: puts a message.
        commit: writes what was put; raises StoreError.
        flush: returns when the disk has the log.
        ask: asks a producer.
        note: notes the progress, to be written.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: TopicTable,
        ledger: Ledger,
        *,
        place: Callable[[IncomingMessage], PutMessageResult],
        commit: Callable[[], None],
        flush: Callable[[], Awaitable[None]],
        ask: Callable[[Asked], None],
        note: Callable[[], None],
    ) -> None:
        self._config = config
        self._store = store
        self._reads = store.reads
        self._topics = topics
        self._ledger = ledger
        self._place = place
        self._commit = commit
        self._flush = flush
        self._ask = ask
        self._note = note
        self._noted = 0
        self._seldom = Seldom(log, clock=trio.current_time)

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """Check at every interval, until cancelled."""
        try:
            await in_slices(self.find_copies())
        except StoreError as exc:
            log.error("half messages cannot be searched for copies: %s", exc)
        while True:
            await trio.sleep(max(1, self._config.transaction_check_interval) / 1000)
            await self.check()

    def find_copies(self) -> Generator[None, None, None]:
        """After a start, keep only the last copy of each transaction open.

        The broker may have crashed after it had written a copy, but before it had noted that.
        """
        window, offset = self._ledger.window, self._ledger.window.base
        end = self._reads.max_offset(TRANSACTION_HALF_TOPIC, HALF_QUEUE)
        seen: dict[tuple[str, str], int] = {}
        while offset < end:
            following = offset + 1
            for record in half_messages(self._reads, offset, end, A_STEP):
                at, key = record.head.queue_offset, transaction_key(record.properties)
                following = at + 1
                if is_copy(record.properties) and key[1]:
                    self._find_copy(key, at, seen.get(key))
                state = window.state(at)
                if len(seen) < MOST_SUCCESSORS and (state in (Mark.OPEN, *_ENDED) or is_copy(record.properties)):
                    seen[key] = at
            offset = following
            yield

    def _find_copy(self, key: Key, at: int, former: int | None) -> None:
        """Note a copy that a search has found, in place of the half message or copy before it.

        If that one has ended before the search came to the copy, so has the copy.
        """
        window = self._ledger.window
        if former is not None and self._ledger.is_unsure and window.state(former) in _ENDED_IN_THIS_RUN:
            with suppress(StoreError):  # a disk that refuses the end has the message open again
                self._commit()
        state = Mark.GONE if former is None else window.state(former)
        if former is not None and state is Mark.OPEN:
            window.mark(former, Mark.MOVED)
        if window.state(at) is not Mark.OPEN:
            return
        if state in _ENDED:
            self._ledger.end_copy(at)
        else:
            window.note_copy(key, at)

    async def check(self) -> None:
        """Check all current half messages. If the disk refuses, the next check continues."""
        end = self._reads.max_offset(TRANSACTION_HALF_TOPIC, HALF_QUEUE)
        self._ledger.window.advance(min(end, self._reads.min_offset(TRANSACTION_HALF_TOPIC, HALF_QUEUE)))
        try:
            is_done = False
            while not is_done:
                asked: list[Asked] = []
                is_done = await in_slices(self._stretch(end, asked))
                if asked or self._ledger.window.base != self._noted:
                    await self._flush()
                    await in_slices(self._put_questions(asked))
                    self._note()
                    self._noted = self._ledger.window.base
        except StoreError as exc:
            self._seldom.error("stuck", "transactions cannot be checked now, trying again: %s", exc)

    def _put_questions(self, asked: list[Asked]) -> Generator[None, None, None]:
        for each in asked:
            if self._ledger.window.state(each.copy.queue_offset) is Mark.OPEN:
                self._ask(each)
            yield

    def _stretch(self, end: int, asked: list[Asked]) -> Generator[None, None, bool]:
        """Continue with the open half messages before `end`. Returns whether all of them are done for now."""
        window, size = self._ledger.window, 0
        while True:
            offset = window.next_open(window.base)
            if self._ledger.is_unsure:
                self._commit()  # do not advance beyond anything that the disk may still refuse
                offset = window.next_open(window.base)
            window.advance(min(offset, end))
            if offset >= end:
                return True
            before = len(asked)
            if not self._step(offset, end, asked):
                return True
            size += sum(len(each.record.message.body) for each in asked[before:])
            yield
            if len(asked) >= A_STRETCH or size >= _BYTES_A_STRETCH:
                return False

    def _step(self, offset: int, end: int, asked: list[Asked]) -> bool:
        """Check some half messages, from an open one on. Returns whether to continue after them.

        Raises:
            StoreError: the disk refused; what was decided here is undone.
        """
        window, found = self._ledger.window, list[Asked]()
        goes_on, following = True, offset
        for record in half_messages(self._reads, offset, end, A_STEP):
            at = record.head.queue_offset
            for gone in range(following, at):
                if window.state(gone) is Mark.OPEN:
                    window.mark(gone, Mark.GONE)
            following = at + 1
            if window.state(at) is Mark.OPEN and not self._deal_with(record, found):
                goes_on = False
                break
        if following == offset:
            log.error("the half message at %d is missing or damaged, and is skipped", offset)
            window.mark(offset, Mark.GONE)
        if self._ledger.is_unsure:
            self._commit()
        asked += found
        return goes_on

    # --- one half message ----------------------------------------------------------------------------------

    def _deal_with(self, record: StoredRecord, asked: list[Asked]) -> bool:
        """Put the copy of a half message, or discard it. Returns False if those after it must not be checked now."""
        then = self._then(record)
        if then is _Then.WAIT:
            return False
        properties, offset = record.properties, record.head.queue_offset
        key, topic = transaction_key(properties), properties.get(PropertyName.REAL_TOPIC, "")
        if then is _Then.DISCARD:
            return self._discard(record, key, topic)
        is_check, text = then is _Then.CHECK, record.message.properties
        times = check_times(properties) + 1 if is_check else None
        result = self._place(copy_to_half_topic(record, checked=times, waits_on=not is_check))
        if result.status in _NEVER_STORABLE:
            record.message.properties = text
            return self._discard(record, key, topic)
        if not self._is_taken(result):
            return False
        self._ledger.move(offset, key, result.queue_offset)
        if is_check:
            asked.append(Asked(record, result))
        return True

    def _discard(self, record: StoredRecord, key: Key, topic: str) -> bool:
        """Discard a half message. Returns False if the store does not take it now."""
        if TRANSACTION_DISCARD_TOPIC not in self._topics:
            self._topics.adopt(TopicConfig(topic_name=TRANSACTION_DISCARD_TOPIC, read_queue_nums=1, write_queue_nums=1))
        message = discarded(record)
        self._store.open_queue(message, bounded=False)
        result = self._place(message)
        if result.status not in _NEVER_STORABLE and not self._is_taken(result):
            return False
        log.error(
            "a transaction of group %.256r for %.256r has not ended after %d checks, and is moved to %s (%s)",
            key[0],
            topic,
            check_times(record.properties),
            TRANSACTION_DISCARD_TOPIC,
            result.status.name,
        )
        self._ledger.discard(record.head.queue_offset, key, topic)
        return True

    def _is_taken(self, result: PutMessageResult) -> bool:
        """Whether the store has taken a message; if not, log it."""
        if result.status is PutMessageStatus.PUT_OK:
            return True
        self._seldom.warning(
            "refused",
            "half messages cannot be checked, because the store accepts no messages now: %s",
            result.status.name,
        )
        return False

    def _then(self, record: StoredRecord) -> _Then:
        config, properties = self._config, record.properties
        times, waited = check_times(properties), self._waited(record)
        if times >= config.transaction_check_max or waited > config.store.file_reserved_time * _HOUR_MS:
            return _Then.DISCARD
        if times:
            return _Then.CHECK
        wanted = immunity_ms(properties, config.transaction_time_out)
        if wanted is not None:
            return _Then.PASS if waited < wanted else _Then.CHECK
        return _Then.WAIT if waited < config.transaction_time_out else _Then.CHECK

    def _waited(self, record: StoredRecord) -> float:
        """How long ago a half message was stored, ms; for a copy made before the first check, its first half message.

        The times of producers do not count, because their clocks may be hours wrong.
        """
        first, clock = first_offset(record.properties), self._store.clock
        if first is not None:
            stored = self._reads.store_time(TRANSACTION_HALF_TOPIC, HALF_QUEUE, first)
            if stored >= 0:
                return clock.even_ms() - stored
        return since_stored(clock, record.head)
