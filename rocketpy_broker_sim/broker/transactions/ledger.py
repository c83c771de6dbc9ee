"""Ledger: the state of a broker's transactions, which ends and checks change.

A change is provisional until its turn has been written. No other end can get in between, and if the disk refuses, the
change is undone. Plays the part of deletePrepareMessage in TransactionalMessageServiceImpl, and of its counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rocketpy.seams import wall_ms
from rocketpy_broker_sim.broker.transactions.ops import OpProgress, PendingOps, op_message
from rocketpy_broker_sim.broker.transactions.window import HalfWindow, Key, Mark
from rocketpy_broker_sim.store.put_result import PutMessageStatus

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.changes import Changes
    from rocketpy_broker_sim.broker.tables.transaction_metrics import TransactionMetrics
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.store.put_result import IncomingMessage, PutMessageResult

__all__ = ["Ledger", "Place"]

Place = Callable[["IncomingMessage"], "PutMessageResult"]
"""Puts a message into the log; the turn, or the calling service, writes it."""


class Ledger:
    """The transactions of one broker.

    Args:
        config: the settings.
        place: puts the messages of the op topic.
        host: returns the address of this broker, in the form that records have.
        metrics: counts open transactions by topic.
        changes: what depends on the turn being written is added there.

    Attributes:
        window: Which half messages have ended.
        progress: Which messages of the op topic are no longer needed.
        pending: Ends that have not been written.
        commits: The number of transactions committed since the start.
        rollbacks: The number of transactions rolled back.
        asked: The number of checks sent to producers.
        nobody_to_ask: The number of checks without a producer to ask.
        discarded: The number of discarded half messages.
    """

    def __init__(
        self,
        config: BrokerConfig,
        place: Place,
        host: Callable[[], bytes],
        metrics: TransactionMetrics,
        changes: Changes,
    ) -> None:
        self.window = HalfWindow()
        self.progress = OpProgress()
        self.pending = PendingOps()
        self.metrics = metrics
        self.commits = self.rollbacks = self.asked = self.nobody_to_ask = self.discarded = 0
        self._config = config
        self._place = place
        self._host = host
        self._changes = changes
        self._listeners: list[Callable[[], object]] = []

    def subscribe(self, listener: Callable[[], object]) -> None:
        """Call a plain function when there is an end to write."""
        self._listeners.append(listener)

    @property
    def is_unsure(self) -> bool:
        """Whether there are changes that have not been written."""
        return bool(self._changes)

    # --- ends ----------------------------------------------------------------------------------------------

    def end(self, offset: int, key: Key, mark: Mark, topic: str, *, at_once: bool = False) -> PutMessageResult | None:
        """End a transaction, once this turn is written.

        Args:
            offset: the offset of its half message.
            key: the key of the transaction.
            mark: how it has ended.
            topic: its real topic.
            at_once: whether to write the end with this turn, because the sender waits for an answer.

        Returns:
            The result of putting the end; None if it is written later.
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
            self._changes.add(written, refused)
        else:
            written()  # nothing was put in this turn
        return result

    def commit_all(self, ends: Sequence[tuple[int, Key]], topic: str) -> None:
        """Commit transactions of one topic, once this turn is written; as `end` does with each of them.

        Args:
            ends: the offset of each half message, and the key of its transaction. No offset comes twice.
            topic: their real topic.
        """
        window = self.window
        copies = [(key, window.forget_copy(key, offset)) for offset, key in ends]
        for offset, _ in ends:
            window.mark(offset, Mark.COMMITTED)

        def written() -> None:
            self.metrics.add(topic, -len(ends))
            self.commits += len(ends)
            for offset, _ in ends:
                self.pending.add(offset)
            for listener in self._listeners:
                listener()

        def refused() -> None:
            for offset, _ in ends:
                window.mark(offset, Mark.OPEN)
            for key, copy in copies:
                if copy is not None:
                    window.note_copy(key, copy)

        self._changes.add(written, refused)

    def end_copy(self, offset: int) -> None:
        """End a copy whose transaction has ended by an earlier half message; that has been counted."""
        self.window.mark(offset, Mark.ENDED)
        self.pending.add(offset)
        for listener in self._listeners:
            listener()

    def _count(self, mark: Mark, topic: str) -> None:
        self.metrics.add(topic, -1)
        if mark is Mark.COMMITTED:
            self.commits += 1
        elif mark is Mark.ROLLED_BACK:
            self.rollbacks += 1

    def write_pending(self) -> bool:
        """Put one message with the first pending ends; the caller writes it. Returns whether the store took it."""
        taken = self.pending.take(self._config.transaction_op_msg_max_size)
        if not taken:
            return True
        if self._write(taken).status is not PutMessageStatus.PUT_OK:
            self.pending.give_back(taken)
            return False
        self._changes.add(_nothing, lambda: self.pending.give_back(taken))
        return True

    def _write(self, offsets: Sequence[int]) -> PutMessageResult:
        result = self._place(op_message(offsets, wall_ms(), self._host()))
        if result.status is PutMessageStatus.PUT_OK:
            note, at, base = self.progress.note, result.queue_offset, self.window.base
            self._changes.add(lambda: note(at, offsets, base), _nothing)
        return result

    # --- checks --------------------------------------------------------------------------------------------

    def move(self, offset: int, key: Key, copy: int) -> None:
        """Replace a half message by a copy, once this is written."""
        window = self.window
        window.mark(offset, Mark.MOVED)
        before = window.note_copy(key, copy)

        def refused() -> None:
            window.mark(offset, Mark.OPEN)
            window.note_copy(key, before)

        self._changes.add(_nothing, refused)

    def discard(self, offset: int, key: Key, topic: str) -> None:
        """Discard a half message, once this is written."""
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

        self._changes.add(written, refused)

    def resume(self, key: Key, copy: int, topic: str) -> None:
        """Open a discarded transaction again, once this is written."""
        before = self.window.note_copy(key, copy)

        def written() -> None:
            self.metrics.add(topic, 1)

        self._changes.add(written, lambda: self.window.note_copy(key, before))


def _nothing() -> None:
    """Do nothing."""
