"""Compiles expressions apart from requests: lark is loaded in a thread, and long expressions are parsed in slices.

Only the requests that need an expression wait until it is compiled. Java has no counterpart; there the request itself
compiles the expression.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.errors import BrokerError
from rocketpy.remoting.connection import Connection
from rocketpy.services import run_blocking
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy_broker_sim.filter.errors import FilterExpressionError
from rocketpy_broker_sim.filter.expression import Compiler, Expression
from rocketpy_broker_sim.serving.memory import Uncounted, size_of
from rocketpy_broker_sim.serving.slices import in_slices

if TYPE_CHECKING:
    from rocketpy_broker_sim.serving.memory import Account

__all__ = ["MOST_WAITING", "Compiled", "Compiling", "WhenCompiled"]

MOST_WAITING = 1024
"""Expressions that may wait to be compiled."""

Compiled = Expression | FilterExpressionError
WhenCompiled = Callable[[Compiled], object]
"""Called once, with the compiled expression or the error."""


@attrs.define(eq=False)
class _Later:
    """An expression for which something is called."""

    text: str
    done: WhenCompiled


@attrs.define(eq=False)
class _Parked:
    """A request that is begun when its expression has been compiled."""

    text: str
    connection: Connection
    request: RemotingCommand
    """The request, not begun, without its body."""
    size: int
    """Bytes kept for it."""


class Compiling:
    """Compiles the expressions that requests need.

    Args:
        account: what parked requests keep counts there.

    Attributes:
        compiler: Has the expressions compiled already.
    """

    def __init__(self, account: Account | None = None) -> None:
        self.compiler = Compiler()
        self._kept = Uncounted() if account is None else account
        self._waiting: dict[_Later | _Parked, None] = {}
        self._parked: dict[Connection, dict[_Parked, None]] = {}  # by connection, those of `_waiting`
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
        self._check_room()
        self._add(_Later(text, done))

    def park(self, text: str, connection: Connection, request: RemotingCommand) -> None:
        """Compile an expression soon; `serve` then begins the request that needs it, if its connection is open.

        Only what answering needs is kept: not the body, which a peer may have filled with anything.

        Raises:
            BrokerError: too many expressions wait, or the broker keeps as much for its peers as it may.
        """
        self._check_room()
        request = attrs.evolve(request, body=b"", remark=None)
        parked = _Parked(text, connection, request, size_of(request))
        if not self._kept.charge(connection, parked.size):
            remark = "[OVERLOAD]the broker keeps as much for its peers as it may (maxKeptBytes), slow down for a while"
            raise BrokerError.for_code(ResponseCode.SYSTEM_BUSY, remark)
        self._add(parked)
        of_connection = self._parked.get(connection)
        if of_connection is not None:
            of_connection[parked] = None
        else:
            self._parked[connection] = {parked: None}
            connection.add_close_callback(self._forget)

    def _check_room(self) -> None:
        if len(self._waiting) >= MOST_WAITING:
            remark = f"[OVERLOAD]{len(self._waiting)} expressions wait to be compiled, slow down for a while"
            raise BrokerError.for_code(ResponseCode.SYSTEM_BUSY, remark)

    def _add(self, entry: _Later | _Parked) -> None:
        self._waiting[entry] = None
        self._wanted.set()

    def _forget(self, connection: Connection) -> None:
        """Let go of the requests of a connection that has closed."""
        for parked in self._parked.pop(connection, ()):
            del self._waiting[parked]
            self._kept.release(connection, parked.size)

    def _take(self, entry: _Later | _Parked) -> bool:
        """Take an entry whose expression has been compiled. Returns False if it has been let go meanwhile."""
        if entry not in self._waiting:
            return False
        del self._waiting[entry]
        if isinstance(entry, _Parked):
            self._parked[entry.connection].pop(entry)
            self._kept.release(entry.connection, entry.size)
        return True

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
                entry = next(iter(self._waiting))
                found = await self._compile(entry.text)
                if not self._take(entry):
                    continue
                if isinstance(entry, _Parked):
                    begin(entry.connection, entry.request)
                else:
                    entry.done(found)
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
