"""QueueResets: resets queues of a running push consumer to the offsets that an administrator has set for its group.

A broker sends the offsets in a request, or in the answer to a pull. Either way, the queues are given up without a
commit and taken again: they are dropped at once, listeners that still have messages of them get some time to finish,
`on_revoked` is called, and the new offsets are committed. Only then may the queues be taken, with `on_assigned`. Plays
the part of resetOffset in MQClientInstance, and of what DefaultMQPushConsumerImpl does when an offset is illegal.
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
    from rocketpy.consumer.calling.consume_service import ConsumeService
    from rocketpy.consumer.pulling.pull_parts import PullParts
    from rocketpy.consumer.rebalancing.assignment import Assignment
    from rocketpy.consumer.rebalancing.rebalance import Rebalance

__all__ = ["SETTLE_SECONDS", "QueueResets"]

logger = get_logger(__name__)

SETTLE_SECONDS = 1.0
"""Seconds between dropping queues and committing new offsets: a pull or a commit in flight may carry the old offset,
and brokers may process them in any order."""
_GATHER_SECONDS = 0.05
"""Seconds during which resets in answers to pulls are gathered."""
LISTENER_SECONDS = 10.0
"""Seconds that listeners get to finish messages of dropped queues. Java always waits that long."""
_RETAKE_SECONDS = 2.0
"""Seconds that the consumer gets to take queues again before the next reset, which only applies to queues it has."""
_MOST_ROUNDS = 4
_LOOK_EVERY = 0.05
"""Seconds between looks at running calls: runners report that calls have ended, but not which ones."""


@attrs.define
class _Move:
    """Queues that are being reset."""

    wanted: dict[MessageQueue, int]
    queues: list[MessageQueue]
    """The queues in `wanted` that this consumer has, or was about to take."""
    dropped: list[ProcessQueue]

    def join(self, other: _Move) -> None:
        """Add the queues of another one."""
        self.wanted |= other.wanted
        self.queues += other.queues
        self.dropped += other.dropped


class QueueResets:
    """Resets queues of one consumer.

    Args:
        config: the consumer's settings.
        parts: what pullers share; a puller whose answer has a reset has `take` called.
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
        """Resets in answers to pulls, gathered to be carried out together."""
        self._moving: dict[MessageQueue, bool] = {}
        """Queues that are being reset, and whether this consumer had each of them or was about to take it."""
        self._moved = trio.Event()
        self._lock = trio.Lock()

    def take(self, queue: MessageQueue, offset: int) -> None:
        """Reset a queue because the answer to a pull said so: drop it at once, and do the rest in a task."""
        move = self._begin({queue: offset})
        if self._gathered is not None:
            self._gathered.join(move)
        else:
            self._gathered = move
            self.start(self._take_gathered)

    async def _take_gathered(self) -> None:
        """Carry out together what arrives at nearly the same time: each queue of a topic has its own pull."""
        await trio.sleep(_GATHER_SECONDS)
        move, self._gathered = self._gathered, None
        if move is not None:
            await self._finish(move)

    async def go_to(self, wanted: Mapping[MessageQueue, int]) -> None:
        """Reset those of these queues that this consumer has.

        Calls run one after the other. Queues that are being reset already are reset again afterwards.
        """
        moved = {queue for queue in wanted if self._moving.get(queue)}
        async with self._lock:
            while not self._moving.keys().isdisjoint(wanted):
                moved |= {queue for queue in wanted if self._moving.get(queue)}
                await self._moved.wait()
            move = self._begin(wanted, moved)
            await self._finish(move)
            await self._wait_taken(move.queues)

    async def _wait_taken(self, queues: Collection[MessageQueue]) -> None:
        """Wait until the consumer has these queues again, but not for long."""
        with trio.move_on_after(_RETAKE_SECONDS):
            for _ in range(_MOST_ROUNDS):
                if set(queues) <= set(self._assignment.claimed()):
                    break
                await self._rebalance.wait_round()

    def _begin(self, wanted: Mapping[MessageQueue, int], moved: Collection[MessageQueue] = ()) -> _Move:
        """Drop queues, so that nothing more of them is committed. Those in `moved` were reset before, and may not be
        back yet.
        """
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
                "a broker has reset the offsets of %s: it continues at %s%s",
                self._config.group,
                {str(queue): wanted[queue] for queue in queues[:5]},
                f"; {len(left)} of {len(queues)} could not be committed and keep their old offsets: reset the group "
                "again"
                if left
                else "",
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
            logger.warning(
                "listeners of %s are still running %.0f s after a reset: what they return for these queues is ignored",
                self._config.group,
                LISTENER_SECONDS,
            )
