"""Durability: how far the log is safe, and who waits for it to come further.

Each degree of safety has a position: taken (in the files, or in the buffers before them), written (in the files),
flushed (the disk has it); a replica's would be one more. Services wait for a position with `Progress.reach`. Answers to
sends wait in the gate: for their messages to be flushed where the settings ask for that, and the one that made a topic
for the name servers to know it. There are no callbacks to set: the part that brings the log further calls `note`.
Plays the part of GroupCommitRequest, of handleDiskFlush and handleHA in CommitLog, and of FlushDiskWatcher.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import trio

from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.broker.replies import refuse
from rocketpy_broker_sim.serving.memory import OVERHEAD, Uncounted

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.name_servers.topic_announcement import Announce
    from rocketpy_broker_sim.broker.putting.put_times import PutTimes
    from rocketpy_broker_sim.broker.replies import Replies
    from rocketpy_broker_sim.serving.memory import Account
    from rocketpy_broker_sim.store.message_store import MessageStore

__all__ = ["Durability", "Progress"]

_LOST = "the disk of the broker failed: whether the message was stored is unknown"


class Progress:
    """How far the log has come in one degree of safety, and the tasks that wait for more.

    Args:
        position: says how far it is.
    """

    def __init__(self, position: Callable[[], int]) -> None:
        self._position = position
        self._lot = trio.lowlevel.ParkingLot()
        self._next = math.inf

    @property
    def position(self) -> int:
        """How far it is now."""
        return self._position()

    def note(self) -> None:
        """It may have come further."""
        if self._next < math.inf and self._position() >= self._next:
            self._next = math.inf
            self._lot.unpark_all()

    async def reach(self, position: int) -> None:
        """Return when it is there."""
        while self._position() < position:
            self._next = min(self._next, position)
            await self._lot.park()


class _Held(NamedTuple):
    replies: Replies
    """What is sent once the log is flushed up to its position."""
    deadline: float
    """When the producer is told that the flush takes too long, seconds on trio's clock."""


class Durability:
    """The gate of one broker.

    Args:
        store: says how far the log is.
        times: hears how long puts took that had to wait.
        sync_timeout: seconds that an answer waits for the disk at most, which says so then (the message is kept); None
            when no answer waits for it.
        most: how many answers may wait.
        announce: calls a function once the name servers know a topic; None when nobody waits for that.
        account: what answers keep that wait counts there.

    Attributes:
        taken: How far messages have been taken.
        written: How far they are in the files.
        flushed: How far the disk has them.
    """

    def __init__(
        self,
        store: MessageStore,
        times: PutTimes,
        *,
        sync_timeout: float | None = None,
        most: int = 10_000,
        announce: Announce | None = None,
        account: Account | None = None,
    ) -> None:
        self.taken = Progress(lambda: store.buffered_position)
        self.written = Progress(lambda: store.written_position)
        self.flushed = Progress(lambda: store.flushed_position)
        self._times = times
        self._timeout = math.inf if sync_timeout is None else sync_timeout
        self._is_synchronous = sync_timeout is not None
        self._most = most
        self._announce = announce
        self._kept = Uncounted() if account is None else account
        self._held: deque[_Held] = deque()
        self._count = 0
        self._begun = trio.lowlevel.ParkingLot()

    @property
    def is_synchronous(self) -> bool:
        """Whether consumers, and most answers, wait for the disk."""
        return self._is_synchronous

    def note_written(self) -> None:
        """Messages may have been taken, and written to the files where no buffers stand before them."""
        self.taken.note()
        self.written.note()

    @property
    def is_full(self) -> bool:
        """Whether so many answers wait for the disk that no message may be taken whose answer would wait, too."""
        return self._count >= self._most

    def __len__(self) -> int:
        """How many answers wait for the disk."""
        return self._count

    # --- answers -----------------------------------------------------------------------------------------

    def pass_on(self, replies: Replies) -> bool:
        """Let replies go whose messages are written, or keep them for what else they wait for.

        Returns:
            Whether they need not wait for the disk.
        """
        if self._is_synchronous and replies.for_disk:
            self._keep(replies)
            self._held.append(_Held(replies, trio.current_time() + self._timeout))
            self._count += len(replies)
            self._begun.unpark()
            return False
        self._let_go(replies)
        return True

    def _let_go(self, replies: Replies) -> None:
        """The messages are as safe as they have to be; the first of a topic waits until that can be found."""
        if replies.new_topic is None or self._announce is None:
            replies.send()
            return

        def announced() -> None:
            self._forget(replies)
            replies.send()

        self._keep(replies)
        self._announce(replies.new_topic, announced)

    def _keep(self, replies: Replies) -> None:
        """They are about to wait: drop what is not needed of them, and count what is kept."""
        replies.settle_down()
        self._kept.note(replies.connection, OVERHEAD * len(replies))

    def _forget(self, replies: Replies) -> None:
        self._kept.release(replies.connection, OVERHEAD * len(replies))

    def release(self) -> None:
        """Let the answers go whose messages the disk has; those of one turn have waited equally long."""
        began, flushed = trio.current_time() + self._timeout, self.flushed.position
        released: dict[float, int] = {}
        while self._held and self._held[0].replies.position <= flushed:
            replies, deadline = self._take()
            released[deadline] = released.get(deadline, 0) + len(replies)
            self._let_go(replies)
        for deadline, count in released.items():
            self._times.note(count, began - deadline)

    def refuse(self) -> int:
        """The disk failed: nobody knows what it has of the messages whose answers wait. Returns how many do."""
        held, self._held, self._count = self._held, deque(), 0
        for each in held:
            self._forget(each.replies)
        count = refuse([each.replies for each in held], _LOST)
        self._times.failed += count
        return count

    async def serve_deadlines(self) -> None:
        """Tell producers whose flush takes too long, until cancelled."""
        while True:
            if not self._held:
                await self._begun.park()
                continue
            await trio.sleep_until(self._held[0].deadline)
            self._expire(trio.current_time())

    def _expire(self, now: float) -> None:
        while self._held and self._held[0].deadline <= now:
            replies = self._take().replies
            self._times.note(len(replies), self._timeout)
            replies.send_as(ResponseCode.FLUSH_DISK_TIMEOUT)

    def _take(self) -> _Held:
        held = self._held.popleft()
        self._count -= len(held.replies)
        self._forget(held.replies)
        return held
