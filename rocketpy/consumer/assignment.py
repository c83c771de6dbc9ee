"""Assignment: the queues that are ours, each with the task that pulls it.

A queue is taken only when it is known where to begin in it, and given up only after its offset was committed. Plays the
part of the processQueueTable in RebalanceImpl.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import trio

from rocketpy.consumer.process_queue import FlowLimits
from rocketpy.consumer.pull import PullParts, QueuePuller
from rocketpy.errors import RocketMQError

if TYPE_CHECKING:
    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.rebalance import Plan
    from rocketpy.consumer.start_position import StartPosition
    from rocketpy.message import MessageQueue

__all__ = ["Assignment", "flow_limits"]

PULL_OVERDUE_AFTER = 120.0
"""Seconds without a pull, and without a reason for that, after which a queue is taken again."""
_MIB = 1024 * 1024


class Assignment:
    """The queues of one consumer.

    Args:
        parts: what pulling tasks share.
        start_position: finds where to begin.
    """

    def __init__(self, parts: PullParts, start_position: StartPosition) -> None:
        self._parts = parts
        self._start_position = start_position
        self._pullers: dict[MessageQueue, QueuePuller] = {}
        self._nursery: trio.Nursery | None = None
        self._stopped = trio.Event()

    # --- life -----------------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """The service under which queues are pulled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await self._stopped.wait()

    def stop(self) -> None:
        """Pull no more. What is held may still be consumed and committed."""
        self._stopped.set()
        for puller in self._pullers.values():
            puller.stop()

    def drop_all(self) -> None:
        """Nothing is ours any more."""
        for puller in self._pullers.values():
            puller.drop()

    # --- looking --------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[QueuePuller]:
        """What pulls each queue. For any thread."""
        return iter(tuple(self._pullers.values()))

    def topics(self) -> set[str]:
        """Topics of which queues are ours."""
        return {queue.topic for queue in self._pullers}

    def queues(self, topic: str | None = None) -> tuple[MessageQueue, ...]:
        """The queues that are ours, of one topic or of all, in order. For any thread."""
        return tuple(sorted(queue for queue in tuple(self._pullers) if topic is None or queue.topic == topic))

    # --- changing -------------------------------------------------------------------------------------

    async def apply(self, topic: str, plan: Plan) -> RocketMQError | None:
        """Give up and take queues of a topic. Returns why some could not be taken, None when all could."""
        overdue = self._overdue(topic, plan)
        await self._give_up([*plan.drop, *overdue])
        failures: list[RocketMQError] = []
        async with trio.open_nursery() as nursery:
            for queue in [*plan.add, *overdue]:
                nursery.start_soon(self._take, queue, failures)
        limits = flow_limits(self._parts.config, len(self.queues(topic)))
        for queue in self.queues(topic):
            self._pullers[queue].process_queue.set_limits(limits)
        return failures[0] if failures else None

    def _overdue(self, topic: str, plan: Plan) -> list[MessageQueue]:
        """Queues that nobody pulls any more though somebody should. There is no way to this; but if there were..."""
        now = trio.current_time()
        overdue = [
            queue
            for queue in self.queues(topic)
            if queue not in plan.drop and self._pullers[queue].process_queue.is_pull_overdue(now, PULL_OVERDUE_AFTER)
        ]
        for queue in overdue:
            self._parts.seldom.error(
                "overdue", "%s has not been pulled for %g seconds: taking it again", queue, PULL_OVERDUE_AFTER
            )
        return overdue

    async def _give_up(self, queues: list[MessageQueue]) -> None:
        if not queues:
            return
        self._parts.consume.collect()
        for queue in queues:
            self._pullers.pop(queue).drop()
        await self._parts.offsets.persist(queues)
        for queue in queues:
            self._parts.offsets.remove(queue)

    async def _take(self, queue: MessageQueue, failures: list[RocketMQError]) -> None:
        offsets = self._parts.offsets
        offsets.remove(queue)
        try:
            position = await self._start_position.find(queue)
        except RocketMQError as error:
            failures.append(error)
            return
        if self._nursery is None or self._stopped.is_set():
            return
        offsets.update(queue, position)
        puller = QueuePuller(queue, position, flow_limits(self._parts.config, 1), self._parts)
        self._pullers[queue] = puller
        self._nursery.start_soon(puller.run)


def flow_limits(config: PushConsumerConfig, queues: int) -> FlowLimits:
    """What may be held of each queue when so many queues of its topic are ours."""
    messages, mib = config.pull_threshold_for_queue, config.pull_threshold_size_for_queue
    if config.pull_threshold_for_topic != -1:
        messages = max(1, config.pull_threshold_for_topic // max(1, queues))
    if config.pull_threshold_size_for_topic != -1:
        mib = max(1, config.pull_threshold_size_for_topic // max(1, queues))
    return FlowLimits(messages, mib * _MIB, config.consume_concurrently_max_span)
