"""Where the pulls of one kind of consumer differ from those of another: what may be held, and what an answer means."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from rocketpy.consumer.process_queue import FlowLimits, ProcessQueue

if TYPE_CHECKING:
    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.offset_store import OffsetStore
    from rocketpy.errors import RocketMQError

__all__ = ["PullManner", "PullSettings", "PushManner"]

_MIB = 1024 * 1024


class PullSettings(Protocol):
    """The settings that pulling reads, for every kind of consumer. Times are seconds."""

    @property
    def group(self) -> str:
        """For whom."""
        ...

    @property
    def pull_batch_size(self) -> int:
        """Messages to ask for in one pull."""
        ...

    @property
    def pull_interval(self) -> float:
        """Between an answer and the next pull of a queue."""
        ...

    @property
    def post_subscription_when_pull(self) -> bool:
        """Whether every pull carries the subscription."""
        ...

    @property
    def broker_suspend_max_time(self) -> float:
        """For which a broker may hold a pull that finds nothing."""
        ...

    @property
    def consumer_timeout_when_suspend(self) -> float:
        """To wait for the answer to a pull."""
        ...

    @property
    def pull_time_delay_when_exception(self) -> float:
        """Before a queue is pulled again after an error."""
        ...


class PullManner(Protocol):
    """How a consumer of one kind pulls."""

    @property
    def lite(self) -> bool:
        """Whether brokers are asked as by a lite pull consumer, whose pulls do not commit."""
        ...

    def limits(self, queues: int) -> FlowLimits:
        """What may be held of each queue when so many queues of its topic are ours."""
        ...

    def brake(self, queue: ProcessQueue) -> str | None:
        """Why a queue must not be pulled now, beside what is held of it; None when nothing is against it.

        When that changes, `QueuePuller.look_again` has to be called.
        """
        ...

    def advanced(self, queue: ProcessQueue) -> None:
        """An answer has moved the position of a queue, perhaps past messages that nobody wants."""
        ...

    def failed(self, queue: ProcessQueue, error: RocketMQError) -> None:
        """A pull failed; the next one comes after a while."""
        ...


class PushManner:
    """How a push consumer pulls.

    Args:
        config: the limits.
        offsets: where it is noted how far the group is.
    """

    lite = False

    def __init__(self, config: PushConsumerConfig, offsets: OffsetStore) -> None:
        self._config = config
        self._offsets = offsets

    def limits(self, queues: int) -> FlowLimits:
        """What may be held of each queue: a bound of the whole topic is shared out among its queues."""
        config = self._config
        messages, mib = config.pull_threshold_for_queue, config.pull_threshold_size_for_queue
        if config.pull_threshold_for_topic != -1:
            messages = max(1, config.pull_threshold_for_topic // max(1, queues))
        if config.pull_threshold_size_for_topic != -1:
            mib = max(1, config.pull_threshold_size_for_topic // max(1, queues))
        # In order the span grows only with what is held, but for filters.
        return FlowLimits(messages, mib * _MIB, math.inf if config.orderly else config.consume_concurrently_max_span)

    def brake(self, queue: ProcessQueue) -> str | None:
        """Nothing but what is held makes pulling wait."""
        return None

    def advanced(self, queue: ProcessQueue) -> None:
        """With nothing held, what was filtered out is dealt with too."""
        self._offsets.update(queue.queue, queue.commit_offset, increase_only=True)

    def failed(self, queue: ProcessQueue, error: RocketMQError) -> None:
        """Listeners need not know."""
