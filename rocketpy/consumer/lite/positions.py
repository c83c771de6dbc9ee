"""Positions: where a lite pull consumer is in its queues, seeking, and pausing.

Plays the part of seek, pause, resume and committed in DefaultLitePullConsumerImpl.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rocketpy.client.arguments import checked_offset, checked_queue, checked_queues, checked_timestamp
from rocketpy.errors import OffsetOutOfRangeError

if TYPE_CHECKING:
    from datetime import datetime

    from rocketpy.consumer.lite.access import Access
    from rocketpy.consumer.offsets.queue_offsets import QueueOffsets
    from rocketpy.message import MessageQueue

__all__ = ["Positions"]


class Positions:
    """What one consumer does with single queues. `LitePullConsumer` says what its methods, by the same names, raise.

    Args:
        access: gives the running part of the consumer and its queues, if they may be used.
    """

    def __init__(self, access: Access) -> None:
        self._access = access

    # --- asking ---------------------------------------------------------------------------------------

    def position(self, queue: MessageQueue) -> int:
        """The offset of the next message that a poll will hand out from a queue. Thread-safe."""
        checked_queue(queue)
        self._access.check_open()
        return self._access.ours(queue).process_queue.look_next()

    async def committed(self, queue: MessageQueue) -> int | None:
        """The committed offset of a queue; None when nothing was ever committed."""
        checked_queue(queue)
        running = self._access.usable()
        kept = running.offsets
        return await (running.queue_offsets if kept.at_brokers else kept).committed(queue)

    async def lag(self) -> dict[MessageQueue, int]:
        """For each queue, how many messages there are from its `position` on."""
        running = self._access.usable()
        ends = await running.queue_offsets.of_each(running.queue_offsets.end, running.assignment.queues())
        return {
            puller.queue: max(0, ends[puller.queue] - puller.process_queue.next_offset)
            for puller in running.assignment
            if puller.queue in ends
        }

    # --- seeking --------------------------------------------------------------------------------------

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at an offset."""
        offsets = self._offsets_of_ours(queue)
        wanted = checked_offset(offset)
        lowest, highest = await offsets.bounds(queue)
        if not lowest <= wanted <= highest:
            raise OffsetOutOfRangeError(
                f"{queue} has no offset {wanted}: seek to an offset from {lowest} to {highest}",
                offset=wanted,
                min_offset=lowest,
                max_offset=highest,
            )
        self._go_to(queue, wanted)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the oldest message that a queue still has."""
        self._go_to(queue, await self._offsets_of_ours(queue).beginning(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue at the next message that comes to a queue."""
        self._go_to(queue, await self._offsets_of_ours(queue).end(queue))

    async def seek_to_timestamp(self, queue: MessageQueue, timestamp: int | datetime) -> None:
        """Continue at the first message that was stored at a time or after it."""
        offsets = self._offsets_of_ours(queue)
        self._go_to(queue, await offsets.at(queue, checked_timestamp(timestamp)))

    def _offsets_of_ours(self, queue: MessageQueue) -> QueueOffsets:
        """What asks about a queue that this consumer has; refuses any other queue."""
        self._access.puller(queue)
        return self._access.usable().queue_offsets

    def _go_to(self, queue: MessageQueue, offset: int) -> None:
        # Another member may have got the queue while its broker was asked.
        self._access.puller(queue).begin_at(offset)
        self._access.usable().cache.forget_dropped()

    # --- pausing --------------------------------------------------------------------------------------

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Hand out and pull nothing more from these queues until `resume`."""
        running = self._access.usable()
        running.cache.pause(self._access.check_assigned(queues))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Continue with paused queues where they are."""
        wanted = checked_queues(queues)
        self._access.usable().cache.resume(wanted)
