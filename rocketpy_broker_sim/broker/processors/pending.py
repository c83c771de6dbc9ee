"""An answer that waits: for name servers that are told of topics, or for expressions that are compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy.errors import BrokerError
    from rocketpy.wire.command import RemotingCommand

__all__ = ["PendingAnswer"]


class PendingAnswer:
    """What the answer to one request waits for.

    Args:
        send: Sends the answer when it has had to wait.

    Attributes:
        refusal: The first reason why something was left out. It is answered at once.
    """

    def __init__(self, send: Callable[[RemotingCommand], object]) -> None:
        self._send = send
        self._missing = 0
        self._late: RemotingCommand | None = None
        self.refusal: BrokerError | None = None

    def refuse(self, error: BrokerError) -> None:
        """Note why something is left out."""
        self.refusal = self.refusal or error

    def add(self, count: int) -> None:
        """Wait for so many more."""
        self._missing += count

    def done(self) -> None:
        """One of them is done."""
        self._missing -= 1
        if self._late is not None and not self._missing:
            self._send(self._late)

    def answer(self, answer: RemotingCommand) -> RemotingCommand | None:
        """The answer, if nothing is waited for any more; otherwise it is sent later."""
        if not self._missing:
            return answer
        self._late = answer
        return None
