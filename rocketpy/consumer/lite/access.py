"""Access: whether a lite pull consumer may be used now, and which queues it has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rocketpy.client.arguments import checked_queue, checked_queues
from rocketpy.errors import QueueNotAssignedError

if TYPE_CHECKING:
    from rocketpy.consumer.current import Current
    from rocketpy.consumer.lite.running import RunningLitePull
    from rocketpy.consumer.pulling.pull import QueuePuller
    from rocketpy.message import MessageQueue

__all__ = ["Access"]


class Access:
    """Gives the parts of one consumer its running part and its queues, if they may be used.

    Args:
        current: the running part.
        group: the consumer group.
    """

    def __init__(self, current: Current[RunningLitePull], group: str) -> None:
        self._current = current
        self._group = group

    def usable(self) -> RunningLitePull:
        """The running part; refuses use if the consumer has crashed, is not open, or belongs to another loop.

        Raises:
            ClientClosedError: the consumer or its client is not open.
            ServiceCrashedError: a bug in the background stopped the consumer.
            ConfigError: this is another loop.
        """
        current = self._current
        current.check_crash()
        self.check_open()
        current.lifecycle.check_loop()
        running = current.check_running()
        running.client.check_open()
        return running

    def check_open(self) -> None:
        """Refuse use while it is not open. Thread-safe.

        While `on_assigned` or `on_revoked` runs it counts as open, even during its start or close.

        Raises:
            ClientClosedError: it is not open, or was opened before a fork.
        """
        running, lifecycle = self._current.running, self._current.lifecycle
        if running is None or not running.hooks.under_way or lifecycle.crossed_fork:
            lifecycle.check_open()

    # --- queues ---------------------------------------------------------------------------------------

    def puller(self, queue: MessageQueue) -> QueuePuller:
        """The puller of a queue that this consumer has.

        Raises:
            ConfigError: this is not a queue.
            QueueNotAssignedError: this consumer does not have the queue.
            ClientClosedError: and the others of `usable`.
        """
        checked_queue(queue)
        self.usable()
        return self.ours(queue)

    def ours(self, queue: MessageQueue) -> QueuePuller:
        """The puller of a queue that this consumer has, in any state. Thread-safe.

        Raises:
            QueueNotAssignedError: this consumer does not have the queue.
        """
        running = self._current.running
        found = None if running is None else running.assignment.get(queue)
        if found is None:
            raise QueueNotAssignedError(
                f"{queue} does not, or no longer, belong to this consumer of {self._group}: see `assignment` for the "
                "queues that do, or `status()` for why it was not taken",
                queue=queue,
            )
        return found

    def check_assigned(self, queues: Iterable[MessageQueue]) -> frozenset[MessageQueue]:
        """Return the queues, if this consumer has all of them. Thread-safe.

        Raises:
            ConfigError: these are not queues.
            QueueNotAssignedError: this consumer does not have one of them.
        """
        wanted = checked_queues(queues)
        for queue in sorted(wanted):
            self.ours(queue)
        return wanted
