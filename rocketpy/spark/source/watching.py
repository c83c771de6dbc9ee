"""Watches how far the queues of a stream reach, and which queues there are, without asking too often.

Spark asks without a pause as long as there is nothing to read: some forty times a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rocketpy.errors import RocketMQError
from rocketpy.logs import get_logger

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue
    from rocketpy.spark.source.brokers import Brokers
    from rocketpy.spark.source.offsets import Offsets
    from rocketpy.spark.source.options import SourceOptions

__all__ = ["POLL", "Watching"]

POLL = 0.1
"""Seconds between two looks at where queues end, while they bring nothing new."""

logger = get_logger(__name__)


class Watching:
    """What a stream knows of its queues. It pickles.

    Args:
        options: the checked options.
        clock: tells seconds.
        wait: waits for seconds.

    Attributes:
        seen: where queues ended when they were last asked.
    """

    def __init__(self, options: SourceOptions, *, clock: Callable[[], float], wait: Callable[[float], object]) -> None:
        self._options = options
        self._clock = clock
        self._wait = wait
        self.seen: Offsets = {}
        self._seen_at: float | None = None
        self._queues: tuple[MessageQueue, ...] | None = None
        self._queues_at = 0.0
        self._gone: set[MessageQueue] = set()
        self._target: Offsets | None = None

    @property
    def has_target(self) -> bool:
        """Whether the ends are fixed."""
        return self._target is not None

    def set_target(self, brokers: Brokers) -> None:
        """Fix the ends where they are now.

        Raises:
            RocketMQError: name servers or brokers do not answer.
        """
        self._target = None
        self._queues = None
        self._target = self._ask(brokers)

    def ends(self, brokers: Brokers, start: Offsets) -> Offsets:
        """Where the queues end, of those that there are now; looked up a moment ago at most if that is after `start`.

        Raises:
            RocketMQError: brokers do not answer, or name servers where no queue is known yet.
        """
        if self._target is not None:
            return self._target
        if self._seen_at is not None and (left := self._seen_at + POLL - self._clock()) > 0:
            if any(start.get(queue, 0) != end for queue, end in self.seen.items()):
                return self.seen
            self._wait(left)
        found = self._ask(brokers)
        self._note_gone(start, found)
        return found

    def rest(self) -> None:
        """Wait a moment, for there is nothing to do now."""
        self._wait(POLL)

    def _ask(self, brokers: Brokers) -> Offsets:
        self.seen = brokers.ends(self.queues(brokers))
        self._seen_at = self._clock()
        return self.seen

    def queues(self, brokers: Brokers) -> tuple[MessageQueue, ...]:
        """The queues that there are, looked up now and then.

        Raises:
            RocketMQError: name servers do not answer, and no queue is known yet.
        """
        known, now = self._queues, self._clock()
        if known is not None and now - self._queues_at < self._options.client.poll_name_server_interval:
            return known
        try:
            self._queues = brokers.queues(patient=known is None)
        except RocketMQError as error:
            if known is None:
                raise
            logger.warning("new queues are not looked for, going on with the known ones: %s", error)
        self._queues_at = self._clock()
        found = self._queues
        assert found is not None
        if known is not None and (new := set(found) - set(known)):
            logger.info("new queues, read from their oldest messages on: %s", ", ".join(map(str, sorted(new))))
        return found

    def _note_gone(self, start: Offsets, found: Offsets) -> None:
        """Say once of each queue that it is not there now; it keeps its offset, and goes on when it is back."""
        gone = {queue for queue in start if queue not in found}
        if new := gone - self._gone:
            said = ", ".join(map(str, sorted(new)))
            logger.warning("queues are not there any more, they keep their offsets: %s", said)
        self._gone = gone
