"""Sends in the portal that somebody outside waits for: what the blocking and the asyncio producer have in common.

The first try of a send is made outside as a rule, over a data connection. What comes here has no such connection, or
goes on after such a try.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from rocketpy.portal import Pending, Portal
from rocketpy.results import SendResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy.client.outgoing import Outgoing
    from rocketpy.client.sending import Choice, Try
    from rocketpy.errors import RocketMQError
    from rocketpy.producer.producer import Producer

__all__ = ["PendingResume", "PendingSend", "Terms"]


class Terms:
    """On which terms a message is sent.

    Args:
        choice: who chooses the queue, None for us.
        tries: how many there may be.
        deadline: on the clock of the client.
        timeout: the seconds that led to it.
        key: topic and sharding key, where that chooses the queue.
    """

    __slots__ = ("choice", "deadline", "key", "timeout", "tries")

    def __init__(
        self, choice: Choice | None, tries: int, deadline: float, timeout: float, key: tuple[str, str] | None
    ) -> None:
        self.choice = choice
        self.tries = tries
        self.deadline = deadline
        self.timeout = timeout
        self.key = key


class _Pending(Pending[SendResult]):
    """One send. It has no task in the portal, unless a try of it fails."""

    __slots__ = ("_give_up", "_producer", "_terms")

    def __init__(self, producer: Producer, terms: Terms) -> None:
        super().__init__()
        self._producer = producer
        self._terms = terms
        self._give_up: Callable[[], None] | None = None

    @abstractmethod
    def _send(self) -> Callable[[], None]:
        """Begin; gives what gives it up."""

    def begin(self, home: Portal) -> None:
        """Send it."""
        try:
            give_up = self._send()
        except Exception as error:  # noqa: BLE001 - whatever a hook raises belongs to whoever sends
            self.end(None, error)
        else:
            self._give_up = None if self.ended else give_up

    def cancel(self) -> None:
        """Give it up."""
        if self._give_up is not None:
            self._give_up()

    def _done(self, outcome: SendResult | Exception) -> None:
        self._give_up = None  # it refers to us: nothing of a send that has ended shall wait for the collector
        if isinstance(outcome, Exception):
            self.end(None, outcome)
        else:
            self.end(outcome)


class PendingSend(_Pending):
    """A send from its first try on. Whoever waits for it has the turn of its sharding key.

    Args:
        producer: sends it.
        outgoing: what is sent.
        terms: of the send.
    """

    __slots__ = ("_outgoing",)

    def __init__(self, producer: Producer, outgoing: Outgoing, terms: Terms) -> None:
        super().__init__(producer, terms)
        self._outgoing: Any = outgoing

    def _send(self) -> Callable[[], None]:
        return self._producer.send_on_terms(self._outgoing, self._terms, self._done)


class PendingResume(_Pending):
    """The rest of a send whose first try has failed.

    Args:
        producer: sends it.
        attempt: the try.
        error: what it came to.
        terms: of the send.
    """

    __slots__ = ("_attempt", "_cause")

    def __init__(self, producer: Producer, attempt: Try[Any], error: RocketMQError, terms: Terms) -> None:
        super().__init__(producer, terms)
        self._attempt = attempt
        self._cause = error

    def _send(self) -> Callable[[], None]:
        return self._producer.resume_send(self._attempt, self._cause, self._terms, self._done)
