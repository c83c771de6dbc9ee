"""Allocation in runs of consecutive queues. Plays the part of AllocateMessageQueueAveragely. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

if TYPE_CHECKING:
    from rocketpy.consumer.rebalancing.strategies.request import AllocateRequest
    from rocketpy.message import MessageQueue

__all__ = ["AllocateAveragely"]


@attrs.frozen
class AllocateAveragely:
    """Gives each member a run of consecutive queues; the first members get one queue more if there is a remainder."""

    name: ClassVar[str] = "AVG"
    """What Java calls it."""

    def __call__(self, request: AllocateRequest) -> list[MessageQueue]:
        """The share of `request.client_id`."""
        share, rest = divmod(len(request.queues), len(request.client_ids))
        index = request.index
        start = index * share + min(index, rest)
        return list(request.queues[start : start + share + (index < rest)])
