"""Pushed replies as a subsystem of the broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rocketpy_broker_sim.broker.metrics.parts import metrics_of_replies
from rocketpy_broker_sim.broker.subsystem import Subsystem
from rocketpy_broker_sim.broker.to_clients.reply_pushes import ReplyPushes

if TYPE_CHECKING:
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.metrics.metric import Family
    from rocketpy_broker_sim.serving.memory import Account

__all__ = ["Replying"]


class Replying(Subsystem):
    """The replies that are being pushed.

    Args:
        config: the settings.
        account: counts the memory kept for pushes under way.

    Attributes:
        pushes: The pushes that are under way.
    """

    def __init__(self, config: BrokerConfig, account: Account) -> None:
        self.pushes = ReplyPushes(config.reply_thread_pool_queue_capacity, account)

    async def settle(self) -> None:
        """End all pushes, and answer their senders."""
        self.pushes.settle()

    def measures(self) -> Mapping[str, str]:
        """The number of replies that were pushed, and of those that could not be."""
        pushes = self.pushes
        return {
            "pushedReplies": str(pushes.pushed),
            "unpushedReplies": str(pushes.failed),
            "pushesUnderWay": str(len(pushes)),
        }

    def families(self) -> Iterable[Family]:
        """The same, as metrics."""
        return metrics_of_replies(self.pushes)
