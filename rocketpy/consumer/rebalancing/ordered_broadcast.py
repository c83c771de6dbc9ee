"""OrderedBroadcast: the queues of a consumer that has all of them to itself, without locks, and consumes them in order.

It gives a queue up like any other. Where it takes the same queue again for another listener, the one before has to be
out of it first. Plays the part of RebalancePushImpl for orderly consumers that broadcast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from rocketpy.consumer.rebalancing.assignment import Assignment
from rocketpy.errors import QueueLockedError, RocketMQError

if TYPE_CHECKING:
    from rocketpy.consumer.calling.consume_orderly import ConsumeMessageOrderlyService
    from rocketpy.consumer.offsets.start_position import StartPosition
    from rocketpy.consumer.pulling.pull import QueuePuller
    from rocketpy.consumer.pulling.pull_parts import PullParts
    from rocketpy.consumer.rebalancing.queue_hooks import QueueHooks
    from rocketpy.consumer.rebalancing.rebalance_wakeup import RebalanceWakeup
    from rocketpy.message import MessageQueue

__all__ = ["OrderedBroadcast"]


class OrderedBroadcast(Assignment):
    """The queues of one consumer.

    Args:
        parts: what pulling tasks share.
        start_position: finds the offset to begin at.
        service: consumes in order.
        hooks: called when queues are assigned and revoked.
        wakeup: is told when a queue can be taken again.
    """

    def __init__(
        self,
        parts: PullParts,
        start_position: StartPosition,
        service: ConsumeMessageOrderlyService,
        hooks: QueueHooks | None = None,
        *,
        wakeup: RebalanceWakeup,
    ) -> None:
        super().__init__(parts, start_position, hooks)
        self._service = service
        self._wakeup = wakeup
        self._restarting: set[MessageQueue] = set()

    def restart(self, queue: MessageQueue) -> None:
        """Give a queue up as soon as its listener has returned, and take it again, unless the consumer closes."""
        puller = self._pullers.get(queue)
        if puller is None or queue in self._restarting or self._nursery is None or self._stopped.is_set():
            return
        self._restarting.add(queue)
        puller.stop()
        puller.paused = "it is given up as soon as its listener returns"
        self._nursery.start_soon(self._leave_and_give_up, queue, puller)

    @trio.lowlevel.enable_ki_protection
    async def _leave_and_give_up(self, queue: MessageQueue, puller: QueuePuller) -> None:
        await self._service.leave(queue)
        if self._pullers.get(queue) is puller:  # a rebalance may have given it up meanwhile
            await self._part_with([queue])
        if self._pullers.get(queue) is puller:
            await self._give_up([queue])
        self._restarting.discard(queue)
        self._wakeup.soon()

    async def _take_all(self, topic: str, queues: Sequence[MessageQueue]) -> list[RocketMQError]:
        busy = [queue for queue in queues if queue in self._restarting]
        failures = await super()._take_all(topic, [queue for queue in queues if queue not in self._restarting])
        if busy:
            text = f"a listener of this consumer is still running on {', '.join(map(str, busy))}"
            failures.append(QueueLockedError(text))
        return failures
