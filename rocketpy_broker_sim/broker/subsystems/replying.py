"""Bringing replies to the clients that asked, as a part of the broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rocketpy_broker_sim.broker.reply_pushes import ReplyPushes
from rocketpy_broker_sim.broker.subsystem import Subsystem

if TYPE_CHECKING:
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.serving.memory import Account

__all__ = ["Replying"]


class Replying(Subsystem):
    """The replies that are being pushed.

    Args:
        config: the settings.
        account: what is kept for those who wait for a push counts there.

    Attributes:
        pushes: The pushes that are under way.
    """

    def __init__(self, config: BrokerConfig, account: Account) -> None:
        self.pushes = ReplyPushes(config.reply_thread_pool_queue_capacity, account)

    async def settle(self) -> None:
        """Answer those who wait for a push."""
        self.pushes.settle()

    def measures(self) -> Mapping[str, str]:
        """How many replies were pushed, and how many could not be."""
        pushes = self.pushes
        return {
            "pushedReplies": str(pushes.pushed),
            "unpushedReplies": str(pushes.failed),
            "pushesUnderWay": str(len(pushes)),
        }
