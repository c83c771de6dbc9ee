"""How pulling differs between kinds of consumers: how much may be held, and what an answer means for offsets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from rocketpy.consumer.process_queue import FlowLimits, ProcessQueue

if TYPE_CHECKING:
    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.offsets.offset_store import OffsetStore
    from rocketpy.errors import RocketMQError
    from rocketpy.serialization.content_types import OwnSerializers

__all__ = ["PullPolicy", "PullSettings", "PushPolicy"]

_MIB = 1024 * 1024


class PullSettings(Protocol):
    """The settings that pulling reads, for every kind of consumer. Durations are in seconds."""

    @property
    def group(self) -> str:
        """The consumer group."""
        ...

    @property
    def serializers(self) -> OwnSerializers:
        """Serializers of the user's own, which read the values of messages."""
        ...

    @property
    def pull_batch_size(self) -> int:
        """Messages to ask for in one pull."""
        ...

    @property
    def pull_interval(self) -> float:
        """Seconds between an answer and the next pull of a queue."""
        ...

    @property
    def post_subscription_when_pull(self) -> bool:
        """Whether every pull carries the subscription."""
        ...

    @property
    def broker_suspend_max_time(self) -> float:
        """Seconds for which a broker may hold a pull that finds no message."""
        ...

    @property
    def consumer_timeout_when_suspend(self) -> float:
        """Seconds to wait for the answer to a pull."""
        ...

    @property
    def pull_time_delay_when_exception(self) -> float:
        """Seconds until a queue is pulled again after an error."""
        ...


class PullPolicy(Protocol):
    """How one kind of consumer pulls."""

    @property
    def lite(self) -> bool:
        """Whether pulls are lite pulls, which do not carry commits."""
        ...

    def limits(self, queues: int) -> FlowLimits:
        """How much of each queue may be held if this consumer has `queues` queues of its topic."""
        ...

    def reason_to_wait(self, queue: ProcessQueue) -> str | None:
        """Why a queue must not be pulled now, apart from how much of it is held; None if it may be.

        `QueuePuller.look_again` must be called when that changes.
        """
        ...

    def advanced(self, queue: ProcessQueue) -> None:
        """An answer has moved the position of a queue, perhaps past messages that were filtered out."""
        ...

    def moved(self, queue: ProcessQueue) -> None:
        """Note that a broker has moved a queue: pulling continues at its position."""
        ...

    def failed(self, queue: ProcessQueue, error: RocketMQError) -> None:
        """A pull failed; the next one follows after a pause."""
        ...


class PushPolicy:
    """How a push consumer pulls.

    Args:
        config: the limits.
        offsets: where the progress of each queue is recorded.
    """

    lite = False

    def __init__(self, config: PushConsumerConfig, offsets: OffsetStore) -> None:
        self._config = config
        self._offsets = offsets

    def limits(self, queues: int) -> FlowLimits:
        """How much of each queue may be held: a limit for the whole topic is divided by the number of its queues."""
        config = self._config
        messages, mib = config.pull_threshold_for_queue, config.pull_threshold_size_for_queue
        if config.pull_threshold_for_topic != -1:
            messages = max(1, config.pull_threshold_for_topic // max(1, queues))
        if config.pull_threshold_size_for_topic != -1:
            mib = max(1, config.pull_threshold_size_for_topic // max(1, queues))
        # In an orderly consumer the span grows only with the messages held, filtered ones aside.
        return FlowLimits(messages, mib * _MIB, math.inf if config.orderly else config.consume_concurrently_max_span)

    def reason_to_wait(self, queue: ProcessQueue) -> str | None:
        """Return None: only what is held makes pulling wait."""
        return None

    def advanced(self, queue: ProcessQueue) -> None:
        """Record the progress: if nothing is held, messages that were filtered out are done too."""
        self._offsets.update(queue.queue, queue.commit_offset, increase_only=True)

    def moved(self, queue: ProcessQueue) -> None:
        """Record the position, where the group continues."""
        self._offsets.update(queue.queue, queue.position)

    def failed(self, queue: ProcessQueue, error: RocketMQError) -> None:
        """Do nothing: listeners need not know."""
