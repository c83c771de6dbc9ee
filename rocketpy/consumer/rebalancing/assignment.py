"""Assignment: the queues that this consumer has, each with the task that pulls it.

A queue is taken only once its start offset is known, and given up only after its offset was committed. Plays the part
of the processQueueTable in RebalanceImpl.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import trio

from rocketpy.consumer.pulling.pull import QueuePuller
from rocketpy.errors import RocketMQError

if TYPE_CHECKING:
    from rocketpy.consumer.locks.lock_refusals import LockStatus
    from rocketpy.consumer.offsets.start_position import StartPosition
    from rocketpy.consumer.process_queue import ProcessQueue
    from rocketpy.consumer.pulling.pull_parts import PullParts
    from rocketpy.consumer.rebalancing.queue_hooks import QueueHooks
    from rocketpy.consumer.rebalancing.rebalance_plan import RebalancePlan
    from rocketpy.message import MessageQueue

__all__ = ["Assignment"]

PULL_OVERDUE_AFTER = 120.0
"""Seconds without a pull, and without a reason for that, after which a queue is taken again; more if pulls, and the
pauses after them, may take longer by the settings."""
SPARE = 30.0
"""Seconds that are then added to the longest time of a pull and a pause."""


class Assignment:
    """The queues of one consumer.

    Args:
        parts: what pulling tasks share.
        start_position: finds the offset to begin at.
        hooks: called when queues are assigned and revoked.
        pullers: where to keep the puller of each queue; others may look there.
    """

    def __init__(
        self,
        parts: PullParts,
        start_position: StartPosition,
        hooks: QueueHooks | None = None,
        pullers: dict[MessageQueue, QueuePuller] | None = None,
    ) -> None:
        self._parts = parts
        self._hooks = hooks
        self._start_position = start_position
        self._pullers = {} if pullers is None else pullers
        self._taking: dict[MessageQueue, object] = {}
        """Queues whose start offset is being looked up, each with a token of the lookup."""
        self._withheld: set[MessageQueue] = set()
        self._nursery: trio.Nursery | None = None
        self._stopped = trio.Event()

    # --- life -----------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the tasks that pull queues, until `stop`."""
        async with trio.open_nursery() as self._nursery:
            for service in self._services():
                self._nursery.start_soon(service)
            task_status.started()
            await self._stopped.wait()

    def _services(self) -> Iterable[Callable[[], Awaitable[None]]]:
        """What else runs while queues are pulled."""
        return ()

    def stop(self) -> None:
        """Stop pulling. Messages that are held may still be consumed and committed."""
        self._stopped.set()
        for puller in self._pullers.values():
            puller.stop()

    def pauses_changed(self) -> None:
        """The user has paused or resumed something."""
        for puller in self._pullers.values():
            puller.pauses_changed()

    def drop_all(self) -> None:
        """Drop every queue: what listeners still return has no effect."""
        for puller in self._pullers.values():
            puller.drop()

    # --- subscriptions --------------------------------------------------------------------------------

    def subscriptions_changed(self) -> None:
        """Cancel the pulls that brokers hold for an old subscription. They are sent again soon, with the new one."""
        self._parts.subscriptions_changed()
        for puller in self._pullers.values():
            puller.subscriptions_changed()

    @property
    def announced(self) -> trio.Event:
        """To be set when every broker that answers has got a heartbeat with the subscriptions as they are now."""
        return self._parts.announced

    # --- looking --------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[QueuePuller]:
        """The puller of each queue. Thread-safe."""
        return iter(tuple(self._pullers.values()))

    def get(self, queue: MessageQueue) -> QueuePuller | None:
        """The puller of a queue, None if this consumer does not have the queue."""
        return self._pullers.get(queue)

    def topics(self) -> set[str]:
        """The topics of the queues that this consumer has or waits for."""
        return {queue.topic for queue in self._pullers}

    def queues(self, topic: str | None = None) -> tuple[MessageQueue, ...]:
        """The queues that this consumer has, of one topic or of all, sorted. Thread-safe."""
        return tuple(sorted(queue for queue in tuple(self._pullers) if topic is None or queue.topic == topic))

    def claimed(self) -> tuple[MessageQueue, ...]:
        """The queues that this consumer has or is about to take."""
        return (*self._pullers, *self._taking)

    def concerned(self) -> tuple[MessageQueue, ...]:
        """The queues that a reset of offsets concerns: those claimed, and those of which something may be committed."""
        return self.claimed()

    def committable(self) -> tuple[MessageQueue, ...]:
        """The queues whose offsets may be committed now."""
        return self.queues()

    def doubted(self) -> tuple[MessageQueue, ...]:
        """The queues whose offsets may not be committed before their locks are valid again; none unless orderly."""
        return ()

    async def wait_change(self) -> None:
        """Wait until a queue has become doubted, or is not doubted any more."""

    def locks(self, now: float) -> dict[MessageQueue, LockStatus]:
        """The locks that this consumer has or wants, at a time of trio's clock; none unless it is orderly."""
        return {}

    # --- changing -------------------------------------------------------------------------------------

    async def apply(self, topic: str, plan: RebalancePlan) -> RocketMQError | None:
        """Give up and take queues of a topic. Returns why some could not be taken, None if all were."""
        overdue = self._overdue(topic, plan)
        await self._part_with([*plan.drop, *overdue])
        await self._give_up([*plan.drop, *overdue])
        wanted = [queue for queue in (*plan.add, *overdue) if queue not in self._withheld]
        failures = await self._take_all(topic, wanted)
        limits = self._parts.policy.limits(len(self.queues(topic)))
        for queue in self.queues(topic):
            self._pullers[queue].process_queue.set_limits(limits)
        return failures[0] if failures else None

    def _overdue(self, topic: str, plan: RebalancePlan) -> list[MessageQueue]:
        """Queues that have not been pulled for too long. No known bug leads to this: it is a watchdog."""
        config, now = self._parts.config, trio.current_time()
        pause = max(config.pull_interval, config.pull_time_delay_when_exception)
        limit = max(PULL_OVERDUE_AFTER, config.consumer_timeout_when_suspend + pause + SPARE)
        overdue = [
            queue
            for queue in self.queues(topic)
            if queue not in plan.drop and self._pullers[queue].is_overdue(now, limit)
        ]
        for queue in overdue:
            self._parts.seldom.error(
                "overdue", "%s has not been pulled for %g seconds: it is assigned again", queue, limit
            )
        return overdue

    async def _part_with(self, queues: Collection[MessageQueue]) -> None:
        """Stop pulling queues and have `on_revoked` called, while this consumer still has them."""
        for queue in queues:
            if queue in self._pullers:
                self._pullers[queue].stop()
        await self._tell_revoked(queues)

    async def _tell_revoked(self, queues: Collection[MessageQueue]) -> None:
        if self._hooks is not None:
            await self._hooks.revoked(queues)

    async def _give_up(self, queues: list[MessageQueue]) -> None:
        if not queues:
            return
        self._parts.consume.collect()
        queues = [queue for queue in queues if queue in self._pullers]  # one may have been withheld meanwhile
        for queue in queues:
            self._pullers.pop(queue).drop()
        await self._parts.offsets.persist(queues)
        for queue in queues:
            self._parts.consumed.left(queue, self._parts.offsets.memory(queue))
            self._parts.offsets.remove(queue)

    async def _take_all(self, topic: str, queues: Sequence[MessageQueue]) -> list[RocketMQError]:
        """Take queues of a topic. Returns why some could not be taken."""
        failures: list[RocketMQError] = []
        async with trio.open_nursery() as nursery:
            for name in sorted({queue.broker_name for queue in queues}):
                its = [queue for queue in queues if queue.broker_name == name]
                nursery.start_soon(self._take_of_broker, its, failures)
        return failures

    async def release(self, deadline: float) -> None:
        """The consumer closes: let other members have its queues at once."""

    @trio.lowlevel.enable_ki_protection
    async def _take_of_broker(self, queues: Collection[MessageQueue], failures: list[RocketMQError]) -> None:
        """One broker that hangs must not hold up the queues of the others."""
        taken: list[QueuePuller] = []
        async with trio.open_nursery() as nursery:
            for queue in queues:
                nursery.start_soon(self._take, queue, taken, failures)
        if self._hooks is not None:
            # Some may have gone while the offsets of others were looked up.
            kept = {puller.queue: puller for puller in taken if self._has(puller)}
            await self._hooks.assigned(tuple(kept), lambda queue: self._is_pulled_by(kept[queue]))
        self._pull(taken)

    def _is_pulled_by(self, puller: QueuePuller) -> bool:
        """Whether the queue is ours still, and by this: its lock may have been lost meanwhile, or other offsets set."""
        return not self._stopped.is_set() and self._has(puller)

    def _has(self, puller: QueuePuller) -> bool:
        return self._pullers.get(puller.queue) is puller

    @trio.lowlevel.enable_ki_protection
    async def _take(self, queue: MessageQueue, taken: list[QueuePuller], failures: list[RocketMQError]) -> None:
        offsets = self._parts.offsets
        if queue in self._withheld:
            return
        offsets.remove(queue)
        mark = self._taking[queue] = object()
        try:
            position = await self._start_position.find(queue)
        except RocketMQError as error:
            failures.append(error)
            return
        finally:
            is_ours = self._taking.get(queue) is mark
            if is_ours:
                del self._taking[queue]
        if self._nursery is None or self._stopped.is_set() or not is_ours:
            return  # the offset may be the one from before `withhold`
        offsets.update(queue, position)
        self._parts.consumed.taken(queue, position)
        puller = self._new_puller(queue, position)
        self._pullers[queue] = puller
        taken.append(puller)

    def _new_puller(self, queue: MessageQueue, position: int) -> QueuePuller:
        return QueuePuller(queue, position, self._parts.policy.limits(1), self._parts)

    def _pull(self, taken: Collection[QueuePuller]) -> None:
        """Start to pull the queues that were taken, unless the consumer has closed meanwhile."""
        for puller in taken:
            if self._nursery is not None and self._is_pulled_by(puller):
                self._nursery.start_soon(puller.run)

    def restart(self, queue: MessageQueue) -> None:
        """Give a queue up and take it again, for another listener; only orderly consumers have to."""

    def withhold(self, queues: Iterable[MessageQueue]) -> tuple[list[MessageQueue], list[ProcessQueue]]:
        """Drop queues without a commit, and take none of them until `admit`, because their offsets are about to change.

        Returns:
            The queues that this consumer had or was about to take, and the process queues of those that it had.
        """
        self._withheld.update(queues)
        dropped = [queue for queue in self._pullers if queue in self._withheld]
        pullers = [self._pullers.pop(queue) for queue in dropped]
        for puller in pullers:
            puller.drop()
        coming = [queue for queue in self._taking if queue in self._withheld]
        for queue in coming:
            del self._taking[queue]
        return sorted({*dropped, *coming}), [puller.process_queue for puller in pullers]

    async def tell_withheld(self, queues: Collection[MessageQueue]) -> None:
        """Tell that these have gone, unless the consumer closes: then that is told with all that is left."""
        if not self._stopped.is_set():
            await self._tell_revoked(queues)

    def admit(self, queues: Iterable[MessageQueue]) -> None:
        """These queues may be taken again; the next rebalance does so."""
        self._withheld.difference_update(queues)
