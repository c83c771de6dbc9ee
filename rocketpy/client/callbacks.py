"""Callbacks: requests of brokers to a client, over the client's own connections.

A broker may be faulty or hostile, so its requests are carried out only for groups that this client has. Requests
without a registered processor are answered with REQUEST_CODE_NOT_SUPPORTED.

A plain processor runs in the reader of the connection and has to be quick. An async one runs in a task of its own, so
that answers to the client's own requests are read meanwhile. The number of such tasks and the bytes of their requests
are limited. Any more requests are refused with SYSTEM_BUSY, because waiting would delay those answers. An exception
from a processor becomes the answer to its request and affects nothing else. Plays the part of ClientRemotingProcessor.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import trio

from rocketpy.errors import BrokerError, RemoteProtocolError
from rocketpy.logs import Seldom, get_logger
from rocketpy.remoting.dispatch import RequestDispatcher
from rocketpy.wire.codes import ResponseCode

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand

__all__ = ["AsyncProcessor", "Callbacks"]

logger = get_logger(__name__)

AsyncProcessor: TypeAlias = "Callable[[Connection, RemotingCommand], Awaitable[RemotingCommand | None]]"
"""Carries out a request and returns the answer, or None if there is none."""

MOST_AT_A_TIME = 64
"""How many async processors of one client may run at the same time."""
MOST_BYTES = 32 * 1024 * 1024
"""Bytes of the bodies of their requests; a single request may have more."""
LONGEST = 60.0
"""Seconds after which an async processor is cancelled; brokers wait for ten at most."""


class Callbacks(RequestDispatcher):
    """A Handler for the requests of brokers to one client.

    Attributes:
        processors: plain processors by request code.
        async_processors: async ones by request code; they take precedence.
    """

    LOOK_AFTER: ClassVar = 1

    def __init__(self) -> None:
        super().__init__({})
        self.async_processors: dict[int, AsyncProcessor] = {}
        self._under_way = 0
        self._bytes = 0
        self._nursery: trio.Nursery | None = None
        self._seldom = Seldom(logger, clock=trio.current_time)

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Run the service that async processors run in."""
        try:
            async with trio.open_nursery() as self._nursery:
                await trio.sleep_forever()
        finally:
            self._nursery = None

    def process(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Carry out one request, or start to; an exception becomes the answer."""
        processor = self.async_processors.get(request.code)
        if processor is not None:
            return self._begin(processor, connection, request)
        try:
            return self.processors.get(request.code, self.default)(connection, request)
        except (Exception, SystemExit) as exc:  # noqa: BLE001  it becomes the answer, and affects no other request
            return self._failed(connection, request, exc)

    def _begin(
        self, processor: AsyncProcessor, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | None:
        if self._nursery is None:
            return request.answer(ResponseCode.SYSTEM_ERROR, "the client is not open: try again once it has started")
        size = len(request.body)
        if self._under_way >= MOST_AT_A_TIME or (self._under_way and self._bytes + size > MOST_BYTES):
            self._seldom.warning(
                ("busy", request.code),
                "refusing a request %d of %s: too many are in progress",
                request.code,
                connection.address,
            )
            return request.answer(
                ResponseCode.SYSTEM_BUSY, f"the client is busy with {self._under_way} requests: try again later"
            )
        self._under_way += 1
        self._bytes += size
        # Called here, because tasks do not begin in the order in which they are started.
        self._nursery.start_soon(self._carry_out, processor(connection, request), connection, request)
        return None

    @trio.lowlevel.enable_ki_protection
    async def _carry_out(
        self, work: Awaitable[RemotingCommand | None], connection: Connection, request: RemotingCommand
    ) -> None:
        answer: RemotingCommand | None = None
        size = len(request.body)
        try:
            with trio.fail_after(LONGEST):
                answer = await work
        except (Exception, SystemExit) as exc:  # noqa: BLE001  as above
            answer = self._failed(connection, request, exc)
        finally:
            self._under_way -= 1
            self._bytes -= size
        if answer is None:
            connection.forget_request(request)
        else:
            connection.send_answer(request, answer)

    def _failed(self, connection: Connection, request: RemotingCommand, exc: BaseException) -> RemotingCommand:
        """The answer for an exception. Of a bug, the broker only learns that there is one."""
        if isinstance(exc, BrokerError):
            return request.answer(exc.code, exc.remark or None)
        if isinstance(exc, RemoteProtocolError):
            return request.answer(ResponseCode.SYSTEM_ERROR, str(exc))
        self._seldom.error(
            (request.code, type(exc)),
            "a request %d of %s failed: %r",
            request.code,
            connection.address,
            exc,
            exc_info=exc,
        )
        return request.answer(ResponseCode.SYSTEM_ERROR, "the client failed: its log has the details")
