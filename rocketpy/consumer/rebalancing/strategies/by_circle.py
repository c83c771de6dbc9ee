"""Allocation in turn, like dealing cards. Plays the part of AllocateMessageQueueAveragelyByCircle. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

if TYPE_CHECKING:
    from rocketpy.consumer.rebalancing.strategies.request import AllocateRequest
    from rocketpy.message import MessageQueue

__all__ = ["AllocateByCircle"]


@attrs.frozen
class AllocateByCircle:
    """Deals queues out to the members like cards, one by one."""

    name: ClassVar[str] = "AVG_BY_CIRCLE"
    """What Java calls it."""

    def __call__(self, request: AllocateRequest) -> list[MessageQueue]:
        """The share of `request.client_id`."""
        return list(request.queues[request.index :: len(request.client_ids)])
