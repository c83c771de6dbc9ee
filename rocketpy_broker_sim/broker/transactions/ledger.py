"""Ledger: what a broker knows of its transactions, changed by ends and checks, and taken back when the disk refuses.

What a turn decides counts when the turn has been written: until then it is provisional, so that no other end gets in
between, and is undone when the disk refuses. Plays the part of deletePrepareMessage in TransactionalMessageServiceImpl,
and of its counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rocketpy.seams import wall_ms
from rocketpy_broker_sim.broker.transactions.ops import OpProgress, PendingOps, op_message
from rocketpy_broker_sim.broker.transactions.window import HalfWindow, Key, Mark
from rocketpy_broker_sim.store.put_result import PutMessageStatus

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.tables.transaction_metrics import TransactionMetrics
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.store.put_result import IncomingMessage, PutMessageResult

__all__ = ["Ledger", "Place"]

Place = Callable[["IncomingMessage"], "PutMessageResult"]
"""Gives a message its place in the log; the turn, or the service that asked, writes it."""


class _Change(NamedTuple):
    """What to do when it is known whether the turn was written."""

    written: Callable[[], object]
    refused: Callable[[], object]


class Ledger:
    """The transactions of one broker.

    Args:
        config: the settings.
        place: gives the messages of the ends their places.
        host: the address of this broker, as records carry it.
        metrics: how many transactions are open, by topic.

    Attributes:
        window: Which half messages have ended.
        progress: How far the messages of the ends are not needed any more.
        pending: Ends that have not been written.
        commits: Transactions that were committed since the start.
        rollbacks: Transactions that were rolled back.
        asked: Questions to producers.
        nobody_to_ask: Questions that nobody could be asked.
        discarded: Half messages that were set aside.
    """

    def __init__(
        self, config: BrokerConfig, place: Place, host: Callable[[], bytes], metrics: TransactionMetrics
    ) -> None:
        self.window = HalfWindow()
        self.progress = OpProgress()
        self.pending = PendingOps()
        self.metrics = metrics
        self.commits = self.rollbacks = self.asked = self.nobody_to_ask = self.discarded = 0
        self._config = config
        self._place = place
        self._host = host
        self._unsure: deque[_Change] = deque()
        self._listeners: list[Callable[[], object]] = []

    def subscribe(self, listener: Callable[[], object]) -> None:
        """Call a plain function whenever an end waits to be written."""
        self._listeners.append(listener)

    # --- the outcome of a turn -----------------------------------------------------------------------------

    @property
    def is_unsure(self) -> bool:
        """Whether something was decided that has not been written."""
        return bool(self._unsure)

    def settle(self, failure: Exception | None) -> None:
        """A turn was written, or could not be."""
        while self._unsure:
            change = self._unsure.popleft() if failure is None else self._unsure.pop()
            (change.written if failure is None else change.refused)()

    # --- ends ----------------------------------------------------------------------------------------------

    def end(self, offset: int, key: Key, mark: Mark, topic: str, *, at_once: bool = False) -> PutMessageResult | None:
        """A half message has ended, when this turn is written.

        Args:
            offset: where it stands.
            key: of its transaction.
            mark: how.
            topic: where it was meant to go.
            at_once: write that with this turn, for somebody who is told that it has ended.

        Returns:
            What became of that message; None when it is left for later.
        """
        window = self.window
        copy = window.forget_copy(key, offset)
        window.mark(offset, mark)
        result = self._write([offset]) if at_once else None
        recorded = result is not None and result.status is PutMessageStatus.PUT_OK

        def written() -> None:
            self._count(mark, topic)
            if not recorded:
                self.pending.add(offset)
                for listener in self._listeners:
                    listener()

        def refused() -> None:
            window.mark(offset, Mark.OPEN)
            if copy is not None:
                window.note_copy(key, copy)

        if mark is Mark.COMMITTED or recorded:
            self._unsure.append(_Change(written, refused))
        else:
            written()  # nothing of it is put in this turn
        return result

    def _count(self, mark: Mark, topic: str) -> None:
        self.metrics.add(topic, -1)
        if mark is Mark.COMMITTED:
            self.commits += 1
        elif mark is Mark.ROLLED_BACK:
            self.rollbacks += 1

    def write_pending(self) -> bool:
        """Put the first of the ends that wait; whether the store took it. The caller has it written."""
        taken = self.pending.take(self._config.transaction_op_msg_max_size)
        if not taken:
            return True
        if self._write(taken).status is not PutMessageStatus.PUT_OK:
            self.pending.give_back(taken)
            return False
        self._unsure.append(_Change(_nothing, lambda: self.pending.give_back(taken)))
        return True

    def _write(self, offsets: Sequence[int]) -> PutMessageResult:
        result = self._place(op_message(offsets, wall_ms(), self._host()))
        if result.status is PutMessageStatus.PUT_OK:
            note, at, base = self.progress.note, result.queue_offset, self.window.base
            self._unsure.append(_Change(lambda: note(at, offsets, base), _nothing))
        return result

    # --- checks --------------------------------------------------------------------------------------------

    def move(self, offset: int, key: Key, copy: int) -> None:
        """A copy takes the place of a half message, when this is written."""
        window = self.window
        window.mark(offset, Mark.MOVED)
        before = window.note_copy(key, copy)

        def refused() -> None:
            window.mark(offset, Mark.OPEN)
            window.note_copy(key, before)

        self._unsure.append(_Change(_nothing, refused))

    def discard(self, offset: int, key: Key, topic: str) -> None:
        """A half message is set aside, when this is written."""
        window = self.window
        window.mark(offset, Mark.DISCARDED)
        before = window.forget_copy(key, offset)

        def written() -> None:
            self.discarded += 1
            self.metrics.add(topic, -1)

        def refused() -> None:
            window.mark(offset, Mark.OPEN)
            if before is not None:
                window.note_copy(key, before)

        self._unsure.append(_Change(written, refused))

    def resume(self, key: Key, copy: int, topic: str) -> None:
        """A half message that was set aside is looked at again, when this is written."""
        before = self.window.note_copy(key, copy)

        def written() -> None:
            self.metrics.add(topic, 1)

        self._unsure.append(_Change(written, lambda: self.window.note_copy(key, before)))


def _nothing() -> None:
    """Nothing is to be done."""
