"""Positions: where a lite pull consumer is in its queues, seeking, and pausing.

Plays the part of seek, pause, resume and committed in DefaultLitePullConsumerImpl.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rocketpy.consumer.arguments import checked_offset, checked_queue, checked_queues, checked_timestamp
from rocketpy.consumer.fetching import Fetching
from rocketpy.consumer.queue_offsets import QueueOffsets
from rocketpy.consumer.sharing import Sharing
from rocketpy.errors import OffsetOutOfRangeError, QueueNotAssignedError

if TYPE_CHECKING:
    from datetime import datetime

    from rocketpy.consumer.lite.running import RunningLitePull
    from rocketpy.consumer.pull import QueuePuller
    from rocketpy.message import MessageQueue

__all__ = ["Positions"]


class Positions(Fetching, Sharing["RunningLitePull"]):
    """What a lite pull consumer does with single queues. Every method raises ClientClosedError while it is not open."""

    @abstractmethod
    def _check_usable(self) -> RunningLitePull:
        """The running part; refuses use unless the consumer is open, in this loop."""

    @abstractmethod
    def check_open(self) -> None:
        """Refuse use while it is not open. For any thread."""

    @abstractmethod
    def _find(self, queue: MessageQueue) -> QueuePuller | None:
        """The puller of a queue, None if this consumer does not have the queue."""

    def _puller(self, queue: MessageQueue) -> QueuePuller:
        """The puller of a queue that this consumer has; refuses any other queue."""
        checked_queue(queue)
        self._check_usable()
        return self._ours(queue)

    def _ours(self, queue: MessageQueue) -> QueuePuller:
        found = self._find(queue)
        if found is None:
            raise QueueNotAssignedError(
                f"{queue} does not, or no longer, belong to this consumer of {self._group}: see `assignment` for the "
                "queues that do, or `status()` for why it was not taken",
                queue=queue,
            )
        return found

    # --- asking ---------------------------------------------------------------------------------------

    def position(self, queue: MessageQueue) -> int:
        """The offset of the next message that a poll will hand out from a queue. For any thread.

        Args:
            queue: a queue that this consumer has.

        Raises:
            ConfigError: this is not a queue.
            QueueNotAssignedError: this consumer does not have the queue.
        """
        checked_queue(queue)
        self.check_open()
        return self._ours(queue).process_queue.look_next()

    async def committed(self, queue: MessageQueue) -> int | None:
        """The committed offset of a queue, as its broker has it; None when nothing was ever committed.

        If a file or an `offset_store` keeps the offsets, it is asked instead. A broker of 4.x answers 0 for a group
        without an offset if the queue still has its first message.

        Args:
            queue: a queue of a topic.

        Raises:
            ConfigError: this is not a queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        offsets = self._offsets_of(queue)
        kept = self._check_usable().offsets
        return await (offsets if kept.at_brokers else kept).committed(queue)

    async def lag(self) -> dict[MessageQueue, int]:
        """For each queue of this consumer, how many messages there are from its `position` on, unwanted ones included.

        Raises:
            RocketMQError: a broker cannot be reached, does not answer, or refuses.
        """
        assignment = self._check_usable().assignment
        offsets = QueueOffsets(self.client, self._group)
        ends = await offsets.of_each(offsets.end, assignment.queues())
        return {
            puller.queue: max(0, ends[puller.queue] - puller.process_queue.next_offset)
            for puller in assignment
            if puller.queue in ends
        }

    # --- seeking --------------------------------------------------------------------------------------

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at an offset. Messages pulled from the queue and not handed out yet are discarded.

        This offset then counts as the progress of the group in that queue: the next commit, of any kind, commits it.

        Args:
            queue: a queue that this consumer has.
            offset: the offset of the next message.

        Raises:
            ConfigError: an argument cannot be used.
            OffsetOutOfRangeError: the offset lies outside of the queue.
            QueueNotAssignedError: this consumer does not have the queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        self._puller(queue)
        wanted = checked_offset(offset)
        lowest, highest = await QueueOffsets(self.client, self._group).bounds(queue)
        if not lowest <= wanted <= highest:
            raise OffsetOutOfRangeError(
                f"{queue} has no offset {wanted}: seek to an offset from {lowest} to {highest}",
                offset=wanted,
                min_offset=lowest,
                max_offset=highest,
            )
        self._go_to(queue, wanted)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the oldest message that a queue still has; otherwise as `seek`.

        Args:
            queue: a queue that this consumer has.

        Raises:
            ConfigError: this is not a queue.
            QueueNotAssignedError: this consumer does not have the queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        self._puller(queue)
        self._go_to(queue, await self._offsets_of(queue).beginning(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue at the next message that comes to a queue; otherwise as `seek`.

        Args:
            queue: a queue that this consumer has.

        Raises:
            ConfigError: this is not a queue.
            QueueNotAssignedError: this consumer does not have the queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        self._puller(queue)
        self._go_to(queue, await self._offsets_of(queue).end(queue))

    async def seek_to_timestamp(self, queue: MessageQueue, timestamp: int | datetime) -> None:
        """Continue at the first message that was stored at a time or after it; otherwise as `seek`.

        Args:
            queue: the queue.
            timestamp: ms since 1970, or a datetime with a time zone.

        Raises:
            ConfigError: an argument cannot be used.
            QueueNotAssignedError: this consumer does not have the queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        self._puller(queue)
        moment = checked_timestamp(timestamp)
        self._go_to(queue, await self._offsets_of(queue).at(queue, moment))

    def _go_to(self, queue: MessageQueue, offset: int) -> None:
        # Another member may have got the queue while its broker was asked.
        self._puller(queue).begin_at(offset)
        self._check_usable().cache.forget_dropped()

    # --- pausing --------------------------------------------------------------------------------------

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Hand out and pull nothing more from these queues until `resume`. They stay with this consumer.

        Args:
            queues: queues that this consumer has.

        Raises:
            ConfigError: these are not queues.
            QueueNotAssignedError: this consumer does not have one of them; none is paused.
        """
        running = self._check_usable()
        running.cache.pause(self.check_assigned(queues))

    def check_assigned(self, queues: Iterable[MessageQueue]) -> frozenset[MessageQueue]:
        """For other surfaces: return the queues, if this consumer has all of them. For any thread."""
        wanted = checked_queues(queues)
        for queue in sorted(wanted):
            self._ours(queue)
        return wanted

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Continue with paused queues where they are. Queues that are not paused are unaffected.

        Args:
            queues: queues that this consumer has.

        Raises:
            ConfigError: these are not queues.
        """
        wanted = checked_queues(queues)
        self._check_usable().cache.resume(wanted)
