"""The list of name servers: which one is asked, and which one is next if it does not answer.

Name servers do not know each other and all have the same data, so one is enough: a random one at first, and the same
one until it fails. Plays the part of the name-server half of NettyRemotingClient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.client.call import ask
from rocketpy.client.name_server_errors import bare, unreachable
from rocketpy.errors import (
    ConfigError,
    RequestCodeNotSupportedError,
    RequestTimeoutError,
    RocketMQError,
    SystemBusyError,
    TransportError,
)
from rocketpy.logs import Seldom, get_logger
from rocketpy.remoting.backoff import at_once, retrying
from rocketpy.seams import random_source

if TYPE_CHECKING:
    from rocketpy.remoting.pool import ConnectionPool
    from rocketpy.wire.command import RemotingCommand

__all__ = ["NameServers"]

logger = get_logger(__name__)

_FAILURES = (TransportError, RequestTimeoutError, SystemBusyError, RequestCodeNotSupportedError)
"""Errors after which the next name server is asked."""


class NameServers:
    """Asks name servers; if one does not answer, the next ones, all within the timeout of the call.

    Args:
        addresses: "host:port" of each.
        pool: has the connections.
        timeout: seconds that a call may take if it has no timeout of its own.

    Raises:
        ConfigError: there are no addresses.
    """

    def __init__(self, addresses: Sequence[str], pool: ConnectionPool, *, timeout: float = 3.0) -> None:
        if not addresses:
            raise ConfigError(
                "no name server is known: pass namesrv='host:9876' (several joined by ';'), or set NAMESRV_ADDR"
            )
        self.addresses = tuple(addresses)
        self._pool = pool
        self._timeout = timeout
        self._seldom = Seldom(logger, clock=trio.current_time)
        self._current = random_source().randrange(len(self.addresses))

    @property
    def current(self) -> str:
        """The address of the name server that is asked first."""
        return self.addresses[self._current]

    async def ask(
        self, command: RemotingCommand, *, timeout: float | None = None, doing: str
    ) -> tuple[RemotingCommand, str]:
        """Ask the current name server, then the others in turn.

        Returns:
            The answer, and the address of the name server that gave it.

        Raises:
            NameServerUnreachableError: none of them answered; the text lists them with their errors.
            BrokerError: one of them answered with a code other than success.
        """
        deadline = trio.current_time() + (self._timeout if timeout is None else timeout)
        tried: list[tuple[str, Exception]] = []
        try:
            return await self._attempt(command, doing, deadline, tried)
        except _FAILURES:
            policy = retrying(attempts=self._more_attempts, wait=at_once)
        try:
            return await policy(self._attempt, command, doing, deadline, tried)
        except _FAILURES as exc:
            raise unreachable(doing, tried) from bare(exc)

    async def ask_all(self, command: RemotingCommand, *, timeout: float | None = None, doing: str) -> None:
        """Send a request to every name server at the same time, as they do not share their data.

        Raises:
            NameServerUnreachableError: some of them did not answer; all were asked.
            BrokerError: one of them answered with a code other than success.
        """
        budget = self._timeout if timeout is None else timeout
        errors: dict[str, RocketMQError] = {}

        @trio.lowlevel.enable_ki_protection
        async def ask_one(address: str) -> None:
            try:
                await ask(self._pool, address, attrs.evolve(command), timeout=budget, doing=doing)
            except RocketMQError as error:
                errors[address] = error

        async with trio.open_nursery() as nursery:
            for address in self.addresses:
                nursery.start_soon(ask_one, address)
        failed: list[tuple[str, Exception]] = [(each, errors[each]) for each in self.addresses if each in errors]
        for _, error in failed:
            if not isinstance(error, _FAILURES):
                raise error
        if failed:
            unanswered = unreachable(doing, failed, changes=True)
            # A question that nobody answered has changed nothing, which is what the class says; this may have.
            unanswered.nothing_sent = all(each in errors and errors[each].nothing_sent for each in self.addresses)
            raise unanswered from bare(failed[-1][1])

    @property
    def _more_attempts(self) -> int:
        # A single name server gets a second attempt: the connection that failed may be from before its restart.
        return max(1, len(self.addresses) - 1)

    async def _attempt(
        self, command: RemotingCommand, doing: str, deadline: float, tried: list[tuple[str, Exception]]
    ) -> tuple[RemotingCommand, str]:
        """Ask the current name server; if it fails, the next one becomes current."""
        address = self.current
        left = max(1, 1 + self._more_attempts - len(tried))
        # A name server that hangs may use up its share of the time, but not that of the others.
        timeout = max(0.001, (deadline - trio.current_time()) / left)
        try:
            return await ask(self._pool, address, command, timeout=timeout, doing=doing), address
        except _FAILURES as error:
            tried.append((address, error))
            self._move_on(address, error)
            raise

    def _move_on(self, failed: str, error: Exception) -> None:
        """Make the next name server current, unless another call has done so meanwhile."""
        if self.current == failed:
            self._current = (self._current + 1) % len(self.addresses)
            if len(self.addresses) > 1:
                self._seldom.warning(failed, "name server %s failed, using %s now: %s", failed, self.current, error)
