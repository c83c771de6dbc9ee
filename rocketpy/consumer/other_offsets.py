"""OtherOffsets: has a running push consumer continue at the offsets that an administrator has set for its group.

A broker tells them in a request, or in the answer to a pull. Either way the queues are given up without a commit and
taken again: they are dropped at once; listeners that still have messages of them get some time to finish; `on_revoked`
is awaited; the new offsets are committed; and only then the queues may be taken, with `on_assigned`. Plays the part of
resetOffset in MQClientInstance, and of what DefaultMQPushConsumerImpl does when an offset is illegal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.consumer.process_queue import ProcessQueue
from rocketpy.logs import get_logger
from rocketpy.message import MessageQueue

if TYPE_CHECKING:
    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.assignment import Assignment
    from rocketpy.consumer.consume_service import ConsumeService
    from rocketpy.consumer.pull_parts import PullParts
    from rocketpy.consumer.rebalance import Rebalance

__all__ = ["SETTLE_SECONDS", "OtherOffsets"]

logger = get_logger(__name__)

SETTLE_SECONDS = 1.0
"""Seconds between dropping queues and committing other offsets: a pull or a commit on its way may carry the old offset,
and brokers may process them in any order."""
_GATHER_SECONDS = 0.05
"""Seconds for which queues that pulls are told of are gathered."""
LISTENER_SECONDS = 10.0
"""Seconds that listeners get to finish messages of dropped queues. Java always waits that long."""
_RETAKE_SECONDS = 2.0
"""Seconds that the consumer gets to take queues again before the next reset, which concerns those that it has."""
_MOST_ROUNDS = 4
_LOOK_EVERY = 0.05
"""Seconds between looks at running calls: runners report that calls have ended, but not which ones."""


@attrs.define
class _Move:
    """Queues that are being moved."""

    wanted: dict[MessageQueue, int]
    queues: list[MessageQueue]
    """Those among them that this consumer has, or was about to take."""
    dropped: list[ProcessQueue]

    def join(self, other: _Move) -> None:
        """Move others together with these."""
        self.wanted |= other.wanted
        self.queues += other.queues
        self.dropped += other.dropped


class OtherOffsets:
    """Moves queues of one consumer to other offsets.

    Args:
        config: the consumer's settings.
        parts: what pullers share; a puller that is told of another offset calls `take`.
        consume: calls listeners.
        assignment: the queues that the consumer has.
        rebalance: shares queues out.
        start: starts a task that may run until the consumer has closed.

    Attributes:
        start: the same.
    """

    def __init__(
        self,
        config: PushConsumerConfig,
        parts: PullParts,
        consume: ConsumeService,
        assignment: Assignment,
        rebalance: Rebalance,
        *,
        start: Callable[[Callable[[], Awaitable[None]]], None],
    ) -> None:
        self._config = config
        self._parts = parts
        self._consume = consume
        self._assignment = assignment
        self._rebalance = rebalance
        self.start = start
        self._gathered: _Move | None = None
        """Queues that pulls were told of, and that wait for others to be moved together."""
        self._moving: dict[MessageQueue, bool] = {}
        """Queues that are being moved; and whether this consumer had each of them, or was about to take it."""
        self._moved = trio.Event()
        self._turn = trio.Lock()
        parts.moved = self.take

    def take(self, queue: MessageQueue, offset: int) -> None:
        """A broker has answered a pull of a queue with another offset. Drop the queue, and do the rest in a task."""
        move = self._begin({queue: offset})
        if self._gathered is not None:
            self._gathered.join(move)
        else:
            self._gathered = move
            self.start(self._take_gathered)

    async def _take_gathered(self) -> None:
        """Move together what is told at nearly the same moment: brokers tell of the queues of a topic one by one."""
        await trio.sleep(_GATHER_SECONDS)
        move, self._gathered = self._gathered, None
        if move is not None:
            await self._finish(move)

    async def go_to(self, wanted: Mapping[MessageQueue, int]) -> None:
        """Continue at these offsets in those of the queues that this consumer has.

        One call comes after the other, and queues that are being moved are moved again after that.
        """
        moved = {queue for queue in wanted if self._moving.get(queue)}
        async with self._turn:
            while not self._moving.keys().isdisjoint(wanted):
                moved |= {queue for queue in wanted if self._moving.get(queue)}
                await self._moved.wait()
            move = self._begin(wanted, moved)
            await self._finish(move)
            await self._wait_taken(move.queues)

    async def _wait_taken(self, queues: Collection[MessageQueue]) -> None:
        """Wait until the consumer has these queues again, for a little while at most."""
        with trio.move_on_after(_RETAKE_SECONDS):
            for _ in range(_MOST_ROUNDS):
                if set(queues) <= set(self._assignment.claimed()):
                    break
                await self._rebalance.wait_round()

    def _begin(self, wanted: Mapping[MessageQueue, int], moved: Collection[MessageQueue] = ()) -> _Move:
        """Drop queues, to commit nothing of them from here on. Some may have `moved` before, and not be back yet."""
        self._consume.collect()
        queues, dropped = self._assignment.withhold(wanted)
        move = _Move(dict(wanted), sorted({*queues, *moved}), dropped)
        self._moving |= {queue: queue in move.queues for queue in wanted}
        return move

    async def _finish(self, move: _Move) -> None:
        store, wanted, queues = self._parts.offsets, move.wanted, move.queues
        try:
            await trio.sleep(SETTLE_SECONDS)
            await self._let_finish(move.dropped)
            await self._assignment.tell_withheld(queues)
            for queue in wanted:
                self._parts.consumed.forget_queue(queue)
            for queue in queues:
                store.update(queue, wanted[queue])
            left = await store.commit_all(queues, deadline=trio.current_time() + self._config.request_timeout)
            logger.warning(
                "%s continues at other offsets, as a broker asked: %s%s",
                self._config.group,
                {str(queue): wanted[queue] for queue in queues[:5]},
                f"; {len(left)} of {len(queues)} could not be committed and stay as they were" if left else "",
            )
        finally:
            for queue in queues:
                store.remove(queue)
            for queue in wanted:
                del self._moving[queue]
            moved, self._moved = self._moved, trio.Event()
            moved.set()
            self._assignment.admit(wanted)
            self._rebalance.soon()

    async def _let_finish(self, dropped: Collection[ProcessQueue]) -> None:
        """Wait until no listener has a message of these queues, for `LISTENER_SECONDS` at most."""
        with trio.move_on_after(LISTENER_SECONDS) as waiting:
            while any(call[1] in dropped for call, _ in self._consume.running()):  # noqa: ASYNC110  see _LOOK_EVERY
                await trio.sleep(_LOOK_EVERY)
        if waiting.cancelled_caught:
            logger.warning("%s: listeners still have messages from before the reset", self._config.group)
