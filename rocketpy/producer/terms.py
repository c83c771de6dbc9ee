"""The terms of a send: who chooses the queue, how many tries it has, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpy.client.sends.sending import Choice

__all__ = ["Terms"]


class Terms:
    """The terms of a send.

    Args:
        choice: chooses the queue; None if the producer does.
        tries: the largest number of attempts.
        deadline: the deadline on the clock of the client.
        timeout: the timeout in seconds from which the deadline was computed.
        key: topic and sharding key, if the sharding key chooses the queue.
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
