"""The status of a push consumer and of its queues: plain records, made on request, in any thread.

Java's nearest counterpart is ConsumerRunningInfo, see `running_info`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import attrs

from rocketpy.consumer.locks.lock_refusals import LockStatus
from rocketpy.errors import MessageDecodeError, RocketMQError, ServiceCrashedError
from rocketpy.message import MessageQueue
from rocketpy.reprs import Short

if TYPE_CHECKING:
    from rocketpy.consumer.pulling.pull import QueuePuller

__all__ = ["PushConsumerStatus", "QueueStatus", "queue_status"]

HELD_AFTER = 1.0
"""Seconds after which a pull that was not answered is held by its broker."""


@attrs.frozen(kw_only=True, repr=False)
class QueueStatus(Short):
    """The state of one queue that a consumer has."""

    _shown_first: ClassVar[tuple[str, ...]] = ("error", "paused")

    held_messages: int
    """Messages pulled and not done yet."""
    held_bytes: int
    span: int
    """Distance between the lowest and the highest offset held."""
    next_offset: int
    """Offset at which the next pull starts."""
    commit_offset: int
    """Offset at which the group would continue if this consumer ended now."""
    last_pull_age: float
    """Seconds since the last pull began."""
    last_consume_age: float
    """Seconds since a message was last consumed, or since this consumer got the queue."""
    paused: str | None
    """Why pulling has paused, None when it has not."""
    listener_age: float | None
    """Seconds that the longest running listener call has taken so far, None when no listener is running."""
    error: RocketMQError | None
    """Why the last pull failed, None when it did not, or when the broker holds the next one."""


@attrs.frozen(kw_only=True, repr=False)
class PushConsumerStatus(Short):
    """The state of a push consumer."""

    _shown_first: ClassVar[tuple[str, ...]] = ("group", "state", "crash", "errors", "balanced", "topics", "queues")

    state: str
    client_id: str
    group: str
    topics: tuple[str, ...]
    """What is subscribed, without the retry topic."""
    balanced: bool
    """Whether the last rebalance succeeded for every topic, and no subscription is newer."""
    queues: Mapping[MessageQueue, QueueStatus]
    """The queues that this consumer has, those of the retry topic included."""
    locks: Mapping[MessageQueue, LockStatus]
    """With `orderly`: the locks that this consumer has or waits for."""
    errors: Mapping[str, RocketMQError]
    """For each topic that cannot be consumed yet, the reason."""
    crash: ServiceCrashedError | None
    """The bug that stopped the consumer, if one did."""


def queue_status(puller: QueuePuller, now: float, listener_since: float | None) -> QueueStatus:
    """Make the status of one queue, as of `now` on the clock of its consumer. Thread-safe."""
    queue = puller.process_queue
    held = queue.look()
    return QueueStatus(
        held_messages=held.messages,
        held_bytes=held.size,
        span=held.span,
        next_offset=held.position,
        commit_offset=held.commit_offset,
        last_pull_age=max(0.0, now - queue.last_pull),
        last_consume_age=max(0.0, now - queue.last_consume),
        paused=puller.paused,
        listener_age=None if listener_since is None else max(0.0, now - listener_since),
        error=_standing_error(puller, now),
    )


def _standing_error(puller: QueuePuller, now: float) -> RocketMQError | None:
    """Why the last pull failed, unless the one in progress shows that this is over.

    A broker holds a pull that finds no messages for many seconds. It has taken one that it has not refused within a
    second, if it answers heartbeats.
    """
    error = puller.error
    if error is None or isinstance(error, MessageDecodeError):
        return error
    is_held = puller.is_asking and now - puller.process_queue.last_pull >= HELD_AFTER
    return None if is_held and puller.is_answered else error
