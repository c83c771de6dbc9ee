"""What a lite pull consumer says about itself: plain records, made when somebody asks, in whichever thread that is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import attrs

from rocketpy.consumer.rates import TopicRates
from rocketpy.consumer.status import QueueStatus, queue_status
from rocketpy.errors import RocketMQError, ServiceCrashedError
from rocketpy.message import MessageQueue

if TYPE_CHECKING:
    from rocketpy.consumer.lite.running import RunningLitePull

__all__ = ["LitePullConsumerStatistics", "LitePullConsumerStatus", "queue_statuses", "statistics"]


@attrs.frozen(kw_only=True)
class LitePullConsumerStatus:
    """A lite pull consumer, now."""

    state: str
    client_id: str
    group: str
    topics: tuple[str, ...]
    """What is subscribed, or of which queues are assigned."""
    balanced: bool
    """Whether every queue that should be ours is."""
    queues: Mapping[MessageQueue, QueueStatus]
    """The queues that are ours. What is held of them was not handed out yet."""
    errors: Mapping[str, RocketMQError]
    """By topic, why it cannot be consumed yet."""
    crash: ServiceCrashedError | None
    """The bug that ended it, None when it was not one."""


@attrs.frozen(kw_only=True)
class LitePullConsumerStatistics:
    """What a lite pull consumer has done since it started."""

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
    handed_out: int
    """Messages that polls have given. A blocking or asyncio loop over messages takes some ahead, which count at once
    and are taken off again when they go back."""
    acknowledged: int
    """Messages for which `ack` was called, each once."""
    topics: Mapping[str, TopicRates]
    """What there was lately of each topic."""


def statistics(running: RunningLitePull, topics: Iterable[str]) -> LitePullConsumerStatistics:
    """The record of everything done. For any thread."""
    pulled, handed_out = running.parts.counters, running.cache.counters
    return LitePullConsumerStatistics(
        rebalances=running.rebalance.rounds,
        pulls=pulled.pulls,
        pulled=pulled.messages,
        filtered=pulled.filtered,
        undecodable=pulled.undecodable,
        offset_resets=pulled.resets,
        handed_out=handed_out.handed_out,
        acknowledged=handed_out.acknowledged,
        topics={topic: running.rates.of(topic) for topic in topics},
    )


def queue_statuses(running: RunningLitePull | None) -> dict[MessageQueue, QueueStatus]:
    """Those of all queues that are ours. For any thread."""
    if running is None:
        return {}
    now = running.now()
    found = {}
    for puller in running.assignment:
        status = queue_status(puller, now, None)
        noted = running.offsets.memory(puller.queue)
        found[puller.queue] = status if noted is None else attrs.evolve(status, commit_offset=noted)
    return found
