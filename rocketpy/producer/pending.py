"""Sends in the portal that somebody outside waits for: what the blocking and the asyncio producer have in common.

The first attempt of a send is made outside as a rule, over a data connection. What comes here has no such connection,
or goes on after such an attempt.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from rocketpy.portal import Pending, StartSoon
from rocketpy.results import SendResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy.client.preparing.outgoing import Outgoing
    from rocketpy.client.sends.sending import Attempt
    from rocketpy.errors import RocketMQError
    from rocketpy.producer.outside import Outside
    from rocketpy.producer.terms import Terms

__all__ = ["PendingResume", "PendingSend"]


class _Pending(Pending[SendResult]):
    """One send. It has no task in the portal, unless an attempt of it fails."""

    __slots__ = ("_give_up", "_outside", "_terms")

    def __init__(self, outside: Outside, terms: Terms) -> None:
        super().__init__()
        self._outside = outside
        self._terms = terms
        self._give_up: Callable[[], None] | None = None

    @abstractmethod
    def _send(self) -> Callable[[], None]:
        """Begin; gives what gives it up."""

    def begin(self, start_soon: StartSoon) -> None:
        """Send it."""
        try:
            give_up = self._send()
        except BaseException as error:  # noqa: BLE001 - what a hook raises belongs to the sender
            self.end(None, error)
        else:
            self._give_up = None if self.ended else give_up

    def cancel(self) -> None:
        """Give it up."""
        if self._give_up is not None:
            self._give_up()

    def _done(self, outcome: SendResult | BaseException) -> None:
        self._give_up = None  # it refers to us: nothing of a send that has ended shall wait for the collector
        if isinstance(outcome, BaseException):
            self.end(None, outcome)
        else:
            self.end(outcome)


class PendingSend(_Pending):
    """A send from its first attempt on. Its caller has the turn of its sharding key.

    Args:
        outside: sends it.
        outgoing: what is sent.
        terms: of the send.
    """

    __slots__ = ("_outgoing",)

    def __init__(self, outside: Outside, outgoing: Outgoing, terms: Terms) -> None:
        super().__init__(outside, terms)
        self._outgoing: Any = outgoing

    def _send(self) -> Callable[[], None]:
        return self._outside.start(self._outgoing, self._terms, self._done)


class PendingResume(_Pending):
    """The rest of a send whose first attempt has failed.

    Args:
        outside: sends it.
        attempt: the failed one.
        error: what it came to.
        terms: of the send.
    """

    __slots__ = ("_attempt", "_cause")

    def __init__(self, outside: Outside, attempt: Attempt[Any], error: RocketMQError, terms: Terms) -> None:
        super().__init__(outside, terms)
        self._attempt = attempt
        self._cause: RocketMQError | None = error

    def _send(self) -> Callable[[], None]:
        error, self._cause = self._cause, None  # its traceback refers to the caller: no cycle may stay behind
        if error is None:
            raise AssertionError("a send goes on once")
        return self._outside.resume(self._attempt, error, self._terms, self._done)
