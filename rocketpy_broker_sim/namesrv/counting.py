"""CountingDispatcher: carries requests out, and counts them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rocketpy.remoting.dispatch import RequestDispatcher
from rocketpy.wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand

__all__ = ["CountingDispatcher", "name_of"]


class CountingDispatcher(RequestDispatcher):
    """A dispatcher that counts.

    Attributes:
        requests: By request code: how many there were.
        refused: By request code: how many of them were answered with an error at once.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.requests: Counter[int] = Counter()
        self.refused: Counter[int] = Counter()

    def process(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Carry out one request, and count it."""
        answer = super().process(connection, request)
        code = request.code if request.code in self.processors else _UNKNOWN
        self.requests[code] += 1
        if answer is not None and answer.code != ResponseCode.SUCCESS:
            self.refused[code] += 1
        return answer


_UNKNOWN = -1
"""Stands for all codes that a name server does not know. Peers choose them: there must not be a counter for each."""


def name_of(code: int) -> str:
    """The name of a code that is counted."""
    return "other" if code == _UNKNOWN else RequestCode(code).name
