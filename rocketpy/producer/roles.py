"""Roles: what a client asks of its producers, in objects of their own, so that users of a producer do not see it.

Each exists only while its producer is open. Plays the part of MQProducerInner.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpy.client.lifecycle import Lifecycle
    from rocketpy.client.preparing.outgoing import Preparer
    from rocketpy.client.roles import TransactionQuestion
    from rocketpy.client.sends.sending import SendCore
    from rocketpy.producer.checks import Checks

__all__ = ["CheckedRole", "SendingRole"]


class SendingRole:
    """The role of a producer.

    Args:
        core: what the attempts of its sends share.
        lifecycle: the lifecycle of the producer.
    """

    def __init__(self, core: SendCore, lifecycle: Lifecycle) -> None:
        self._core = core
        self._lifecycle = lifecycle

    def on_route_changed(self, topic: str) -> None:
        """The route of a topic has changed."""
        self._core.forget_gone_brokers()

    def client_closing(self) -> None:
        """A shared client closes before the producer does."""
        self._lifecycle.closing()


class CheckedRole(SendingRole):
    """The role of a transaction producer, which brokers ask how transactions ended.

    Args:
        core: what the attempts of its sends share.
        lifecycle: the lifecycle of the producer.
        topics: the topics whose brokers need to know the producer.
        preparer: reads the messages of checks.
        checks: answers the checks.
    """

    def __init__(
        self, core: SendCore, lifecycle: Lifecycle, topics: Iterable[str], preparer: Preparer, checks: Checks
    ) -> None:
        super().__init__(core, lifecycle)
        self._topics = topics
        self._preparer = preparer
        self._checks = checks

    def topics(self) -> Iterable[str]:
        """The topics whose routes the client must keep fresh."""
        return self._topics

    def on_check(self, question: TransactionQuestion) -> None:
        """Take a broker's check of a transaction."""
        if self._lifecycle.is_open:
            self._preparer.read(question.message)
            self._checks.take(question)
