"""Commits: which messages of a lite pull consumer are done, and which offsets it commits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rocketpy.client.arguments import checked_offset, checked_queue
from rocketpy.errors import ConfigError
from rocketpy.logs import Seldom, get_logger

if TYPE_CHECKING:
    from rocketpy.consumer.current import Current
    from rocketpy.consumer.lite.access import Access
    from rocketpy.consumer.lite.running import RunningLitePull
    from rocketpy.message import MessageExt, MessageQueue

__all__ = ["Commits"]

logger = get_logger(__name__)


class Commits:
    """The commits of one consumer.

    Args:
        current: the running part of the consumer.
        access: tells which queues it has.
    """

    def __init__(self, current: Current[RunningLitePull], access: Access) -> None:
        self._current = current
        self._access = access
        self._seldom = Seldom(logger)

    def settle(
        self, running: RunningLitePull, offsets: Mapping[MessageQueue, int] | None
    ) -> Mapping[MessageQueue, int]:
        """The offsets to commit, which are recorded: these, or those of all that is done.

        Raises:
            ConfigError: these are not offsets of queues.
            QueueNotAssignedError: this consumer does not have one of the queues.
        """
        wanted = self.check_offsets(offsets)
        if wanted is None:
            return running.cache.settle()
        for queue, offset in wanted.items():
            pulled = self._access.ours(queue).process_queue.position
            if offset > pulled:
                self._seldom.warning(
                    ("ahead", queue),
                    "committing offset %d of %s, which was pulled only up to %d: nobody gets the messages in between. "
                    "To skip messages on purpose, use seek",
                    offset,
                    queue,
                    pulled,
                )
            running.offsets.note(queue, offset)
        return wanted

    def check_offsets(self, offsets: Mapping[MessageQueue, int] | None) -> Mapping[MessageQueue, int] | None:
        """Return the offsets to commit, if this consumer has their queues. Thread-safe.

        Raises:
            ConfigError: these are not offsets of queues.
            QueueNotAssignedError: this consumer does not have one of the queues.
        """
        if offsets is None:
            return None
        if not isinstance(offsets, Mapping):
            raise ConfigError(f"offsets must be a dict of queues and offsets, not {offsets!r:.100}")
        wanted = {checked_queue(queue): checked_offset(offset) for queue, offset in offsets.items()}
        self._access.check_assigned(wanted)
        return wanted

    def acknowledge(self, message: MessageExt) -> None:
        """Mark one message as done; has no effect on a consumer that is closed by now."""
        running = self._current.running
        if running is None or (running.closing and not running.hooks.under_way):
            return
        if not running.cache.acknowledge(message.queue, message.queue_offset):
            self._seldom.warning(
                message.queue,
                "the ack of offset %d of %s is ignored: it was not handed out, was acknowledged before, or the queue "
                "now belongs to another member",
                message.queue_offset,
                message.queue,
            )
