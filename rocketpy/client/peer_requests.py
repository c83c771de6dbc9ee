"""PeerRequests: passes a broker's requests from a data connection to the loop of the client.

The connection is read elsewhere, in a thread or in the user's event loop, and its reader never waits for the client. So
the queue of waiting requests is bounded, and any more are refused with SYSTEM_BUSY.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import trio

from rocketpy.errors import RocketMQError
from rocketpy.logs import Seldom, get_logger
from rocketpy.remoting.answers import answer_frame
from rocketpy.remoting.rounds import Slice
from rocketpy.wire.codes import ONEWAY_FLAG, ResponseCode

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection, Handler
    from rocketpy.wire.command import RemotingCommand

__all__ = ["PeerRequests"]

logger = get_logger(__name__)

MOST_WAITING = 1024
"""How many requests of one connection may wait."""
MOST_BYTES = 32 * 1024 * 1024
"""Bytes of their bodies; a single request may have more."""


class PeerRequests:
    """The requests of one connection. The client's handler uses it in place of a Connection.

    Args:
        address: of the broker.
        handler: processes requests.
        post: calls a function soon in the loop of the client, from any thread.
        deliver: sends the frame of an answer, from any thread.
    """

    def __init__(
        self,
        address: str,
        handler: Handler,
        *,
        post: Callable[[Callable[[], object]], object],
        deliver: Callable[[bytes], object],
    ) -> None:
        self.address = address
        self._handler = handler
        self._post = post
        self._deliver = deliver
        self._waiting: deque[RemotingCommand] = deque()
        self._is_asked = False
        self._time_slice: Slice | None = None
        self._seldom = Seldom(logger)

    def take(self, requests: list[RemotingCommand]) -> None:
        """Add requests, to be processed soon. Called by the thread that reads."""
        held = sum(len(each.body) for each in list(self._waiting))
        for request in requests:
            held += len(request.body)
            if self._waiting and (len(self._waiting) >= MOST_WAITING or held > MOST_BYTES):
                self._refuse(request)
            else:
                self._waiting.append(request)
        self._ask()

    def _refuse(self, request: RemotingCommand) -> None:
        self._seldom.warning(
            "busy", "refusing requests of %s over a data connection: too many are waiting", self.address
        )
        remark = "too many requests of this broker are waiting in the client: try again later"
        self.send_answer(request, request.answer(ResponseCode.SYSTEM_BUSY, remark))

    def _ask(self) -> None:
        if self._waiting and not self._is_asked:
            self._is_asked = True
            with suppress(RocketMQError):  # the process is ending
                self._post(self._serve)

    # --- in the loop of the client ----------------------------------------------------------------------

    def _serve(self) -> None:
        """Process waiting requests while this turn of the loop has time; the rest follows in later turns."""
        self._is_asked = False  # first, so that requests appended from here on lead to another call
        self._time_slice = Slice()
        requests = list(self._waiting)
        taken = self._handler.handle(cast("Connection", self), requests, trio.current_time())
        for _ in requests[:taken]:
            self._waiting.popleft()
        self._ask()

    def has_room(self) -> bool:
        """Always True: instead of waiting for a peer that does not read its answers, `deliver` disconnects it."""
        return True

    def has_time(self) -> bool:
        """Whether this turn of the loop has time for another request."""
        return self._time_slice is None or self._time_slice.has_time()

    def send_answer(self, request: RemotingCommand, answer: RemotingCommand) -> None:
        """Answer a request; nothing is sent for a one-way request."""
        if request.flag & ONEWAY_FLAG:
            return
        with suppress(RocketMQError):  # the connection has ended
            self._deliver(answer_frame(request, answer, self.address))

    def forget_request(self, request: RemotingCommand) -> None:
        """Do nothing: no record is kept of a request that will never be answered."""
