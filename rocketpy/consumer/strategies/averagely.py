"""Shares of neighbours. Plays the part of AllocateMessageQueueAveragely. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

if TYPE_CHECKING:
    from rocketpy.consumer.strategies.request import AllocateRequest
    from rocketpy.message import MessageQueue

__all__ = ["AllocateAveragely"]


@attrs.frozen
class AllocateAveragely:
    """Each member gets one run of neighbours; the first ones get one queue more when it does not come out even."""

    name: ClassVar[str] = "AVG"
    """What Java calls it."""

    def __call__(self, request: AllocateRequest) -> list[MessageQueue]:
        """The share of who asks."""
        share, rest = divmod(len(request.queues), len(request.client_ids))
        index = request.index
        start = index * share + min(index, rest)
        return list(request.queues[start : start + share + (index < rest)])
