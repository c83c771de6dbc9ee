"""What a push consumer says about itself: plain records, made when somebody asks, in whichever thread that is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from rocketpy.consumer.queue_locks import LockStatus
from rocketpy.consumer.rates import TopicRates
from rocketpy.errors import RocketMQError, ServiceCrashedError
from rocketpy.message import MessageQueue

if TYPE_CHECKING:
    from rocketpy.consumer.consume_service import ConsumeCounters
    from rocketpy.consumer.pull import PullCounters, QueuePuller

__all__ = ["PushConsumerStatistics", "PushConsumerStatus", "QueueStatus", "queue_status", "statistics"]


@attrs.frozen(kw_only=True)
class QueueStatus:
    """One queue that is ours."""

    held_messages: int
    """Pulled and not dealt with."""
    held_bytes: int
    span: int
    """Distance between the lowest and the highest offset held."""
    next_offset: int
    """Where the next pull begins."""
    commit_offset: int
    """Where the group would go on if this consumer ended now."""
    last_pull_age: float
    """Seconds since the last pull began."""
    last_consume_age: float
    """Seconds since something was consumed, or since the queue became ours."""
    paused: str | None
    """Why pulling waits, None when it does not."""
    listener_age: float | None
    """Seconds for which the oldest call of a listener under way has run, None when there is none."""
    error: RocketMQError | None
    """Why the last pull failed, None when it did not."""


@attrs.frozen(kw_only=True)
class PushConsumerStatus:
    """A push consumer, now."""

    state: str
    client_id: str
    group: str
    topics: tuple[str, ...]
    """What is subscribed, without the retry topic."""
    balanced: bool
    """Whether the last look at who consumes what left nothing to be desired."""
    queues: Mapping[MessageQueue, QueueStatus]
    """The queues that are ours, those of the retry topic included."""
    locks: Mapping[MessageQueue, LockStatus]
    """The locks that this consumer has, or waits for, when it consumes in order."""
    errors: Mapping[str, RocketMQError]
    """By topic, why it cannot be consumed yet."""
    crash: ServiceCrashedError | None
    """The bug that ended it, None when it was not one."""


@attrs.frozen(kw_only=True)
class PushConsumerStatistics:
    """What a push consumer has done since it started."""

    rebalances: int
    pulls: int
    pulled: int
    """Messages that were pulled and wanted."""
    filtered: int
    """Messages that were pulled and had another tag of the same hash."""
    undecodable: int
    """Answers to pulls with a damaged message."""
    offset_resets: int
    """Times a broker moved a queue to another offset."""
    consumed: int
    failed: int
    """Messages of listener calls that failed or took too long."""
    timed_out: int
    sent_back: int
    """Messages that a broker took back."""
    sent_as_new: int
    """Those of them that had to be sent as new messages."""
    dropped: int
    """Messages that failed while broadcasting, which has no retries."""
    retried_here: int
    """Messages that no broker took back, so that they are tried again here."""
    duplicates: int
    """Messages that no listener got because a copy was consumed already, see `dedupe`; `consumed` counts them too."""
    topics: Mapping[str, TopicRates]
    """What there was lately of each topic that is subscribed; messages that come again count for the retry topic,
    but for the time that listeners take."""


def queue_status(puller: QueuePuller, now: float, listener_since: float | None) -> QueueStatus:
    """The record of one queue, at a time of the clock of its consumer. For any thread."""
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
        error=puller.error,
    )


def statistics(
    rebalances: int,
    pulled: PullCounters,
    consumed: ConsumeCounters,
    sent_as_new: int,
    duplicates: int,
    topics: Mapping[str, TopicRates],
) -> PushConsumerStatistics:
    """The record of everything done."""
    return PushConsumerStatistics(
        rebalances=rebalances,
        pulls=pulled.pulls,
        pulled=pulled.messages,
        filtered=pulled.filtered,
        undecodable=pulled.undecodable,
        offset_resets=pulled.resets,
        consumed=consumed.consumed,
        failed=consumed.failed,
        timed_out=consumed.timed_out,
        sent_back=consumed.sent_back,
        sent_as_new=sent_as_new,
        dropped=consumed.dropped,
        retried_here=consumed.retried_here,
        duplicates=duplicates,
        topics=topics,
    )
