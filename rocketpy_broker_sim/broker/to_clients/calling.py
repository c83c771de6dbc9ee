"""Calling: passes administrators' questions on to clients, and answers with what the client answers.

Each call is a task outside the lanes, with a deadline. The number of calls is limited, in all and for each connection
that asks, and further ones are refused as busy. When the broker stops, pending calls are answered at once. Plays the
part of callClient in Broker2Client, where a thread waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

import trio

from rocketpy.errors import RequestTimeoutError, RocketMQError
from rocketpy.logs import get_logger
from rocketpy.remoting.answers import answer_for_error
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.command import RemotingCommand

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy_broker_sim.broker.tables.clients import ClientChannel

__all__ = ["CALL_SECONDS", "ClientCalls"]

log = get_logger(__name__)

MOST = 64
"""Calls at a time."""
MOST_OF_ONE = 16
"""Calls at a time for one connection that asks."""
CALL_SECONDS = 10.0
"""Seconds that a client gets to answer."""

Call = Callable[[], Awaitable[RemotingCommand]]
"""Asks clients, and makes the answer for the administrator."""


class ClientCalls:
    """The calls of one broker, which run below the task of `serve`."""

    def __init__(self) -> None:
        self._nursery: trio.Nursery | None = None
        self._stopped = False
        self._scopes: set[trio.CancelScope] = set()
        self._askers: Counter[Connection] = Counter()
        self._none = trio.Event()

    def __len__(self) -> int:
        """The number of running calls."""
        return len(self._scopes)

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """Run the service that calls run in, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            await trio.sleep_forever()

    def begin(self, connection: Connection, request: RemotingCommand, call: Call) -> RemotingCommand | None:
        """Start a call for a request, which is answered when the call has ended.

        Returns:
            The answer if the call may not start, otherwise None.
        """
        if self._stopped or self._nursery is None:
            return request.answer(ResponseCode.SYSTEM_BUSY, "the broker stops: ask again when it is back")
        if len(self._scopes) >= MOST or self._askers[connection] >= MOST_OF_ONE:
            remark = f"the broker waits for {len(self._scopes)} answers of clients: ask again in a few seconds"
            return request.answer(ResponseCode.SYSTEM_BUSY, remark)
        scope = trio.CancelScope()
        self._scopes.add(scope)
        self._askers[connection] += 1
        self._nursery.start_soon(self._make, connection, request, call, scope)
        return None

    @trio.lowlevel.enable_ki_protection
    async def _make(
        self, connection: Connection, request: RemotingCommand, call: Call, scope: trio.CancelScope
    ) -> None:
        answer = request.answer(ResponseCode.SYSTEM_ERROR, "the broker stops: ask again when it is back")
        try:
            with scope:
                answer = await call()
        except Exception as exc:  # noqa: BLE001  it becomes the answer to this request, and affects no other
            answer = answer_for_error(request, exc, connection.address)
        finally:
            self._scopes.discard(scope)
            self._askers[connection] -= 1
            if not self._askers[connection]:
                del self._askers[connection]
            if not self._scopes:
                self._none.set()
        connection.send_answer(request, answer)

    async def settle(self) -> None:
        """Answer all pending calls, and start no more."""
        self._stopped = True
        for scope in list(self._scopes):
            scope.cancel()
        while self._scopes:
            self._none = trio.Event()
            await self._none.wait()


async def call_client(member: ClientChannel, group: str, command: RemotingCommand) -> RemotingCommand:
    """Ask one client. Returns its answer, or one that tells why there is none."""
    try:
        return await cast("Connection", member.channel).request(command, timeout=CALL_SECONDS)
    except RequestTimeoutError:
        remark = f"consumer <{group}> <{member.client_id}> Timeout: no answer within {CALL_SECONDS:g} s"
        return RemotingCommand(ResponseCode.CONSUME_MSG_TIMEOUT, remark=remark)
    except RocketMQError as exc:
        log.info("the client %s cannot be asked: %s", member, exc)
        remark = f"invoke consumer <{group}> <{member.client_id}> Exception: its connection has ended"
        return RemotingCommand(ResponseCode.SYSTEM_ERROR, remark=remark)
