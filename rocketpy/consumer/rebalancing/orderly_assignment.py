"""OrderlyAssignment: queues that are consumed in order, by one member of the group at a time.

This consumer has a queue once the broker has locked it for this consumer. It gives a queue up in this order: stop
pulling and start no more calls; wait until the listener has returned and dead letters have been sent, keeping the lock;
await `on_revoked`; commit, and wait for the broker's answer; unlock. When a lock is lost, the queue is dropped at once:
the listener's result does not count, and nothing is committed; but the queue is not taken again before the listener and
`on_revoked` have returned. Plays the part of RebalancePushImpl for orderly consumers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import trio

from rocketpy.consumer.locks.queue_locks import LockSettings, QueueLocks
from rocketpy.consumer.pulling.pull import QueuePuller
from rocketpy.consumer.rebalancing.assignment import Assignment
from rocketpy.errors import QueueLockedError, RocketMQError
from rocketpy.logs import counted, get_logger

if TYPE_CHECKING:
    from rocketpy.consumer.calling.consume_orderly import ConsumeMessageOrderlyService
    from rocketpy.consumer.locks.lock_refusals import LockStatus
    from rocketpy.consumer.offsets.start_position import StartPosition
    from rocketpy.consumer.process_queue import ProcessQueue
    from rocketpy.consumer.pulling.pull_parts import PullParts
    from rocketpy.consumer.rebalancing.queue_hooks import QueueHooks
    from rocketpy.consumer.rebalancing.rebalance_plan import RebalancePlan
    from rocketpy.consumer.rebalancing.rebalance_wakeup import RebalanceWakeup
    from rocketpy.message import MessageQueue

__all__ = ["OrderlyAssignment"]

logger = get_logger(__name__)

COMMIT_TIMEOUT = 3.0
"""Seconds for the last commit of a queue that is being given up."""


class OrderlyAssignment(Assignment):
    """The queues of one consumer, and their locks.

    Args:
        parts: what pulling tasks share.
        start_position: finds the offset to begin at.
        service: consumes in order.
        hooks: called when queues are assigned and revoked.
        config: the settings of locks.
        wakeup: is told when a queue can or must be taken again.
    """

    def __init__(
        self,
        parts: PullParts,
        start_position: StartPosition,
        service: ConsumeMessageOrderlyService,
        hooks: QueueHooks | None = None,
        *,
        config: LockSettings,
        wakeup: RebalanceWakeup,
    ) -> None:
        super().__init__(parts, start_position, hooks)
        self._wakeup = wakeup
        self._service = service
        self._admitted = trio.Event()
        self._leaving: dict[MessageQueue, QueuePuller] = {}
        self._locks = QueueLocks(parts.client, config, self)

    def _services(self) -> Iterable[Callable[[], Awaitable[None]]]:
        return (self._locks.run, self._locks.refusals.run)

    # --- looking --------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[QueuePuller]:
        """The puller of each queue, those of queues being given up included, whose listener is still running."""
        yield from super().__iter__()
        yield from tuple(self._leaving.values())

    def topics(self) -> set[str]:
        """The topics of the queues that this consumer has, or whose locks it waits for."""
        return super().topics() | self._locks.refusals.topics()

    def concerned(self) -> tuple[MessageQueue, ...]:
        """The queues that a reset of offsets concerns, those included that are being given up and not committed yet."""
        return (*self.claimed(), *(queue for queue, _ in self._uncommitted()))

    def _uncommitted(self) -> list[tuple[MessageQueue, QueuePuller]]:
        """The queues that are being given up, and of which something may still be committed."""
        return [(queue, puller) for queue, puller in self._leaving.items() if not puller.process_queue.dropped]

    def committable(self) -> tuple[MessageQueue, ...]:
        """The queues with a valid lock, but for those that are about to get other offsets.

        Another member may have the others, and may be further on.
        """
        ours = (*self.queues(), *self._leaving)
        return tuple(queue for queue in ours if queue not in self._withheld and self._locks.counts(queue))

    def doubted(self) -> tuple[MessageQueue, ...]:
        """The queues that this consumer has consumed, and whose locks are not valid now."""
        held = [(puller.queue, puller) for puller in self._pullers.values() if not puller.process_queue.dropped]
        ours = (queue for queue, _ in (*held, *self._uncommitted()))
        return tuple(queue for queue in ours if queue not in self._withheld and not self._locks.counts(queue))

    async def wait_change(self) -> None:
        """Wait until a lock has become valid, or is lost or given back."""
        await self._locks.wait_change()

    def locks(self, now: float) -> dict[MessageQueue, LockStatus]:
        """The locks that this consumer has or wants."""
        return self._locks.look(now)

    # --- as a LockOwner ---------------------------------------------------------------------------------

    def lock_counts(self, queue: MessageQueue, until: float) -> None:
        """Consume a queue until a time of trio's clock."""
        puller = self._pullers.get(queue) or self._leaving.get(queue)
        if puller is not None and until > trio.current_time():
            puller.process_queue.last_lock = trio.current_time()
        if queue not in self._leaving:
            self._service.allow_until(queue, until)

    def lock_lost(self, queue: MessageQueue) -> None:
        """Drop a queue that another member has locked, or do not take it if its offset is just being looked up."""
        puller = self._pullers.get(queue) or self._leaving.get(queue)
        if puller is None:
            self._taking.pop(queue, None)
            self._wakeup.soon()
            return
        logger.warning(
            "the lock on %s is lost: another member of %s continues at the last committed offset, and what is held "
            "here is dropped: %s",
            queue,
            self._parts.config.group,
            counted(len(puller.process_queue), "message"),
        )
        puller.drop()
        if queue in self._pullers:
            self._leave(queue)
        self._wakeup.soon()

    async def is_ours_still(self, queue: MessageQueue) -> bool:
        """Whether no other member has committed an offset beyond what this consumer has consumed."""
        puller = self._pullers.get(queue) or self._leaving.get(queue)
        if puller is None:
            return True
        self._service.collect()
        there = await self._parts.offsets.committed(queue)
        return there is None or there <= puller.process_queue.commit_offset

    # --- changing -------------------------------------------------------------------------------------

    async def apply(self, topic: str, plan: RebalancePlan) -> RocketMQError | None:
        """Give up and take queues of a topic."""
        for queue, puller in self._leaving.items():
            puller.process_queue.unlock_tries += queue.topic == topic
        self._locks.refusals.want_only(topic, plan.add)
        return await super().apply(topic, plan)

    def _overdue(self, topic: str, plan: RebalancePlan) -> list[MessageQueue]:
        return [queue for queue in super()._overdue(topic, plan) if self._locks.counts(queue)]

    def restart(self, queue: MessageQueue) -> None:
        """Give a queue up and take it again, unless the consumer closes."""
        if queue in self._pullers and not self._stopped.is_set():
            self._leave(queue)

    async def _part_with(self, queues: Collection[MessageQueue]) -> None:
        """Nothing is told yet: first their listeners have to be out of them."""

    async def _give_up(self, queues: list[MessageQueue]) -> None:
        for queue in queues:
            if queue in self._pullers:  # its lock may have been lost since it was looked at
                self._leave(queue)

    def _leave(self, queue: MessageQueue) -> None:
        puller = self._leaving[queue] = self._pullers.pop(queue)
        puller.stop()
        puller.paused = "it is given up as soon as its listener returns"
        if any(call[1] is puller.process_queue for call, _ in self._service.running()):
            puller.process_queue.unlock_tries += 1
        if self._nursery is not None:
            self._nursery.start_soon(self._leave_in_order, queue, puller)

    @trio.lowlevel.enable_ki_protection
    async def _leave_in_order(self, queue: MessageQueue, puller: QueuePuller) -> None:
        offsets = self._parts.offsets
        await self._service.leave(queue)
        self._service.collect()
        await self._tell_revoked([queue])
        await self._commit_last(queue, puller)
        puller.drop()
        offsets.remove(queue)
        await self._locks.give_back([queue])
        del self._leaving[queue]
        self._wakeup.soon()

    async def _commit_last(self, queue: MessageQueue, puller: QueuePuller) -> None:
        """Commit a queue that is given up, unless its lock is lost, or it is reset: then wait until it has that offset.

        It may also be reset during the commit, and has to be had until the reset is committed as well.
        """
        offsets = self._parts.offsets
        if not puller.process_queue.dropped and self._locks.counts(queue):
            await offsets.commit_all([queue], deadline=trio.current_time() + COMMIT_TIMEOUT)
            if not puller.process_queue.dropped:
                self._parts.consumed.left(queue, offsets.memory(queue))
        while queue in self._withheld:
            await self._admitted.wait()

    def withhold(self, queues: Iterable[MessageQueue]) -> tuple[list[MessageQueue], list[ProcessQueue]]:
        """Drop queues without a commit, and take none of them until `admit`. Their locks are kept until then.

        Returns:
            The queues that this consumer had, was about to take or had not given up yet, and the process queues of
            those that it was not about to take.
        """
        wanted = set(queues)
        pullers = {queue: puller for queue, puller in self._pullers.items() if queue in wanted}
        going = {queue: puller for queue, puller in self._uncommitted() if queue in wanted}
        found, dropped = super().withhold(wanted)
        for queue, puller in pullers.items():
            self._pullers[queue] = puller
            self._leave(queue)
        for puller in going.values():
            puller.drop()
        return sorted({*found, *going}), [*dropped, *(puller.process_queue for puller in going.values())]

    async def tell_withheld(self, queues: Collection[MessageQueue]) -> None:
        """Report that these queues are gone; those with a running listener only after it has returned."""
        busy = {call[1].queue for call, _ in self._service.running()}
        await super().tell_withheld([queue for queue in queues if queue not in busy])

    def admit(self, queues: Iterable[MessageQueue]) -> None:
        """These queues may be taken again."""
        super().admit(queues)
        admitted, self._admitted = self._admitted, trio.Event()
        admitted.set()

    def _new_puller(self, queue: MessageQueue, position: int) -> QueuePuller:
        return QueuePuller(queue, position, self._parts.policy.limits(1), self._parts, self._locks)

    async def _take_all(self, topic: str, queues: Sequence[MessageQueue]) -> list[RocketMQError]:
        failures: list[RocketMQError] = []
        leaving = [queue for queue in queues if queue in self._leaving]
        if leaving:
            failures.append(
                QueueLockedError(f"a listener of this consumer is still running on {', '.join(map(str, leaving))}")
            )
        free = [queue for queue in queues if queue not in self._leaving]
        failures += await self._locks.take(free)
        locked = [queue for queue in free if self._locks.counts(queue)]
        failures += await super()._take_all(topic, locked)
        # A queue whose start offset is not known, or whose lock is in doubt by now, is left to others until it is ours.
        locked = [queue for queue in free if self._locks.has(queue)]
        idle = [queue for queue in locked if queue not in self._pullers and queue not in self._leaving]
        for queue in idle:
            await self._service.leave(queue)
        await self._locks.give_back(idle)
        return failures

    # --- closing --------------------------------------------------------------------------------------

    async def release(self, deadline: float) -> None:
        """Unlock all queues except those whose listener is still running: their locks expire by themselves.

        A cancelled rebalance may have locked queues that this consumer does not have.
        """
        busy = {call[1].queue for call, _ in self._service.running()}
        ours = self._locks.held() - busy
        if busy:
            logger.warning(
                "listeners of %s are still running on %s: the broker keeps these queues locked for up to 60 s more",
                self._parts.config.group,
                ", ".join(map(str, sorted(busy))),
            )
        with trio.move_on_at(deadline):
            await self._locks.give_back(ours)

    def drop_all(self) -> None:
        """Drop every queue: what listeners still return has no effect."""
        super().drop_all()
        for puller in self._leaving.values():
            puller.drop()
        self._locks.note_change()  # commits wait for one
