"""One `request_soon`: a task of the portal makes the request, and its outcome completes a future."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from rocketpy.errors import ClientClosedError
from rocketpy.portal import Call

if TYPE_CHECKING:
    from rocketpy.client.sends.sending import Choice
    from rocketpy.message import MessageExt
    from rocketpy.portal import Portal
    from rocketpy.producer.requesting import PreparedRequest, Requester
    from rocketpy.sync.future import SendFuture
    from rocketpy.sync.gate import Gate

__all__ = ["AskedSoon"]


class AskedSoon:
    """A request that is under way.

    Args:
        gate: Where it takes room.
        future: Gets the outcome.

    Attributes:
        beginner: The ident of the thread that is handing it over, 0 afterwards, as in `Soon`.
    """

    __slots__ = ("_future", "_gate", "beginner")

    def __init__(self, gate: Gate, future: SendFuture[MessageExt]) -> None:
        self._gate = gate
        self._future = future
        self.beginner = threading.get_ident()

    def begin(
        self, home: Portal, requests: Requester, asked: PreparedRequest, choice: Choice | None, retries: int
    ) -> None:
        """Start the request in the portal."""
        call = Call(partial(requests.ask, asked, choice, retries))
        try:
            home.post(call.start, home.start_soon, partial(self._ended, call))
        except ClientClosedError as error:
            self._done(error)
        self.beginner = 0

    def _ended(self, call: Call[MessageExt]) -> None:
        """Take the outcome of the call, in the portal."""
        try:
            outcome: MessageExt | BaseException = call.result()
        except BaseException as error:  # noqa: BLE001 - the future holds any error
            outcome = error
        self._done(outcome)

    def _done(self, outcome: MessageExt | BaseException) -> None:
        self._future.complete(outcome)
        self._gate.leave(self)  # last: those who wait until the gate is empty find the callbacks due
