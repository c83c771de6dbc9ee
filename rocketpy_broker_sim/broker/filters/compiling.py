"""Compiles expressions apart from requests: lark is loaded in a thread, and long expressions are parsed in slices.

Only the requests that need an expression wait until it is compiled. Java has no counterpart; there the request itself
compiles the expression.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import trio

from rocketpy.errors import BrokerError
from rocketpy.services import run_blocking
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.filter.errors import FilterExpressionError
from rocketpy_broker_sim.filter.expression import Compiler, Expression
from rocketpy_broker_sim.serving.slices import in_slices

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand

__all__ = ["MOST_WAITING", "Compiled", "Compiling", "WhenCompiled"]

MOST_WAITING = 1024
"""Expressions that may wait to be compiled."""

Compiled = Expression | FilterExpressionError
WhenCompiled = Callable[[Compiled], object]
"""Called once, with the compiled expression or the error."""


class _Parked(NamedTuple):
    """A request that is begun when its expression has been compiled."""

    connection: Connection
    """Where the request came from."""
    request: RemotingCommand
    """The request, not begun."""


class Compiling:
    """Compiles the expressions that requests need.

    Attributes:
        compiler: Has the expressions compiled already.
    """

    def __init__(self) -> None:
        self.compiler = Compiler()
        self._waiting: deque[tuple[str, WhenCompiled | _Parked]] = deque()
        self._wanted = trio.Event()
        self._emptied = trio.lowlevel.ParkingLot()

    def cached(self, text: str) -> Compiled | None:
        """An expression that was compiled before, or its error; None if it was not."""
        try:
            return self.compiler.cached(text)
        except FilterExpressionError as exc:
            return exc

    def later(self, text: str, done: WhenCompiled) -> None:
        """Compile an expression soon, and then call `done` with it.

        Raises:
            BrokerError: too many expressions wait.
        """
        self._add(text, done)

    def park(self, text: str, connection: Connection, request: RemotingCommand) -> None:
        """Compile an expression soon; `serve` then begins the request that needs it, if its connection is open.

        Raises:
            BrokerError: too many expressions wait.
        """
        self._add(text, _Parked(connection, request))

    def _add(self, text: str, then: WhenCompiled | _Parked) -> None:
        if len(self._waiting) >= MOST_WAITING:
            remark = f"[OVERLOAD]{len(self._waiting)} expressions wait to be compiled, slow down for a while"
            raise BrokerError.for_code(ResponseCode.SYSTEM_BUSY, remark)
        self._waiting.append((text, then))
        self._wanted.set()

    @trio.lowlevel.enable_ki_protection
    async def serve(self, begin: Callable[[Connection, RemotingCommand], object], finish: Callable[[], object]) -> None:
        """Compile the expressions that wait, until cancelled.

        Args:
            begin: begins a request that was parked.
            finish: called after each of them, to send answers.
        """
        while True:
            await self._wanted.wait()
            while self._waiting:
                text, then = self._waiting[0]
                found = await self._compile(text)
                self._waiting.popleft()
                if not isinstance(then, _Parked):
                    then(found)
                elif then.connection.is_open:
                    begin(*then)
                finish()
            self._wanted = trio.Event()
            self._emptied.unpark_all()

    async def wait_none(self) -> None:
        """Wait until no expression waits any more."""
        while self._waiting:
            await self._emptied.park()

    async def _compile(self, text: str) -> Compiled:
        if not self.compiler.is_loaded:
            await run_blocking(self.compiler.load)
        try:
            return await in_slices(self.compiler.compile_steps(text))
        except FilterExpressionError as exc:
            return exc
