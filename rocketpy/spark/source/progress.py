"""How far a read of one range has come, and what an answer to a pull means for it. Pure.

Offsets need not be contiguous: filters, expiry and compaction leave gaps. So a range has been read when the position
has passed its end, and the position follows what the broker says.

When messages expire, a broker first deletes them, and moves the start of their queue later. Until then, it passes over
them without a word, or answers that there is no message that matches, with a remark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from rocketpy.errors import RemoteProtocolError
from rocketpy.results import PullStatus
from rocketpy.spark.source.loss import lost
from rocketpy.spark.source.offsets import OffsetRange

if TYPE_CHECKING:
    from rocketpy.results import PulledRecords

__all__ = ["Progress"]

_REMOVING = "MESSAGE_WAS_REMOVING"
"""The remark of a broker that finds only messages that it has deleted."""
_MOST_IDLE = 20
"""Answers in a row that may leave the position where it is."""


@attrs.define
class Progress:
    """A read of a range.

    Attributes:
        range: what is read.
        fail_on_data_loss: whether messages that are gone are an error.
        patience: how often an answer may say that the queue ends before the range does; a broker that was just started
            may say so.
        position: the next offset to pull from.
        ask_master: whether the next pull has to go to the master, because a replica may not have everything yet.
        pause: whether to wait a moment before the next pull.
    """

    range: OffsetRange
    fail_on_data_loss: bool
    patience: int
    position: int = attrs.field(init=False)
    ask_master: bool = attrs.field(init=False, default=False)
    pause: bool = attrs.field(init=False, default=False)
    _idle: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        """Begin at the start."""
        self.position = self.range.start

    @property
    def is_done(self) -> bool:
        """Whether everything has been read."""
        return self.position >= self.range.until

    def note(
        self,
        answer: PulledRecords,
        *,
        from_master: bool,
        first: int | None = None,
        expired: bool = False,
        no_master: bool = False,
    ) -> bool:
        """Move on by what an answer says. Returns whether its messages, which are the caller's, count.

        Args:
            answer: the answer.
            from_master: whether it is the master's.
            first: the offset of its first message; None if a filter may leave out those before it.
            expired: whether the master has deleted the oldest message of the queue, so that those before `first` are
                gone too.
            no_master: whether there is no master now, so that what a replica finds is all that can be read.

        Raises:
            DataLossError: messages are gone, and that is an error.
            RemoteProtocolError: the broker does not move on.
        """
        self.ask_master = self.pause = False
        before = self.position
        from_best = from_master or no_master
        is_found = answer.status is PullStatus.FOUND and (from_best or first is None or first <= before)
        if is_found:
            if first is not None and first > before and expired:
                self._lost(min(first, self.range.until), f"the oldest message has offset {first}")
            self.position = answer.next_begin_offset
        elif not (from_master or (no_master and answer.remark == _REMOVING)):
            self.ask_master = True
            if answer.status is PullStatus.NO_MATCHED_MSG and answer.remark != _REMOVING:
                self.position = max(before, answer.next_begin_offset)
        else:
            self._note_nothing(answer)
        if self.position > before:
            self._idle = 0
            return is_found
        self.position = before
        self._idle += 1
        self.pause = self._idle > 1
        if self._idle > max(_MOST_IDLE, self.patience):
            raise RemoteProtocolError(
                f"the broker does not move on: pulls of {self.range.queue} from offset {before} return nothing, and "
                f"the next offset that it names is {answer.next_begin_offset}"
            )
        return is_found

    def _note_nothing(self, answer: PulledRecords) -> None:
        """The master has found no message at the position, or refuses it."""
        start, until = self.position, self.range.until
        if answer.min_offset > start:
            self._lost(min(answer.min_offset, until), f"the oldest message has offset {answer.min_offset}")
            self.position = answer.min_offset
        elif answer.status is PullStatus.OFFSET_ILLEGAL and answer.max_offset > start:
            pass  # an administrator has reset the group; a broker tells that a few times, and then answers
        elif answer.status is PullStatus.NO_MATCHED_MSG and answer.remark == _REMOVING:
            following = max(start, answer.next_begin_offset)
            self._lost(min(following, until), "the broker has deleted them")
            self.position = following
        elif answer.status is PullStatus.NO_MATCHED_MSG or answer.max_offset > start:
            self.position = max(start, answer.next_begin_offset)
        elif self._idle >= self.patience:
            why = f"the queue ends at offset {answer.max_offset}, so it may have been deleted and created again"
            self._lost(until, why)
            self.position = until

    def _lost(self, until: int, why: str) -> None:
        lost(self.range.queue, self.position, until, why, fail=self.fail_on_data_loss)
