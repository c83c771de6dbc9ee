"""Compiles expressions apart from requests: lark is loaded in a thread, and long expressions are parsed in slices.

Only the requests that need an expression wait until it is compiled. Java has no counterpart; there the request itself
compiles the expression.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio

from rocketpy.errors import BrokerError
from rocketpy.services import run_blocking
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.filter.errors import FilterExpressionError
from rocketpy_broker_sim.filter.expression import Compiler, Expression
from rocketpy_broker_sim.serving.slices import in_slices

__all__ = ["MOST_WAITING", "Compiled", "Compiling", "WhenCompiled"]

MOST_WAITING = 1024
"""Expressions that may wait to be compiled."""

Compiled = Expression | FilterExpressionError
WhenCompiled = Callable[[Compiled], object]
"""Called once, with the compiled expression or the error."""


class Compiling:
    """Compiles the expressions that requests need.

    Attributes:
        compiler: Has the expressions compiled already.
    """

    def __init__(self) -> None:
        self.compiler = Compiler()
        self._waiting: deque[tuple[str, WhenCompiled]] = deque()
        self._wanted = trio.Event()
        self._emptied = trio.lowlevel.ParkingLot()

    def known(self, text: str) -> Compiled | None:
        """An expression that was compiled before, or its error; None if it was not."""
        try:
            return self.compiler.known(text)
        except FilterExpressionError as exc:
            return exc

    def later(self, text: str, done: WhenCompiled) -> None:
        """Compile an expression soon, and then call `done` with it.

        Raises:
            BrokerError: too many expressions wait.
        """
        if len(self._waiting) >= MOST_WAITING:
            remark = f"[OVERLOAD]{len(self._waiting)} expressions wait to be compiled, slow down for a while"
            raise BrokerError.for_code(ResponseCode.SYSTEM_BUSY, remark)
        self._waiting.append((text, done))
        self._wanted.set()

    async def serve(self, finish: Callable[[], object]) -> None:
        """Compile the expressions that wait, until cancelled.

        Args:
            finish: called after each of them, to send answers.
        """
        while True:
            await self._wanted.wait()
            while self._waiting:
                text, done = self._waiting[0]
                found = await self._compile(text)
                self._waiting.popleft()
                done(found)
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
