"""What a lite pull consumer says about itself: a plain record, made when somebody asks, in whichever thread that is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from rocketpy.consumer.status import QueueStatus, queue_status
from rocketpy.errors import RocketMQError, ServiceCrashedError
from rocketpy.message import MessageQueue

if TYPE_CHECKING:
    from rocketpy.consumer.lite.running import RunningLitePull

__all__ = ["LitePullConsumerStatus", "queue_statuses"]


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
