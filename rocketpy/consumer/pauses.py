"""What the user has paused: everything, topics, or single queues, those assigned later included. Pure.

Changed in the trio thread only. Plays the part of suspend and resume in DefaultMQPushConsumerImpl, which pause
everything or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from rocketpy.errors import ConfigError
from rocketpy.message import MessageQueue

__all__ = ["Pausable", "Pauses", "checked"]

Pausable: TypeAlias = "str | MessageQueue | Iterable[MessageQueue] | None"
"""A topic, a queue, several queues, or None for everything."""


def checked(what: Pausable, topics: Iterable[str]) -> frozenset[str] | frozenset[MessageQueue] | None:
    """The topics or queues meant by an argument of `pause` or `resume`; None for everything.

    Raises:
        ConfigError: it is neither a topic that is subscribed nor queues.
    """
    if what is None:
        return None
    if isinstance(what, str):
        if what not in topics:
            raise ConfigError(f"the topic {what!r:.100} is not subscribed, only {', '.join(topics) or 'none'}")
        return frozenset([what])
    given: object = [what] if isinstance(what, MessageQueue) else what
    if not isinstance(given, Iterable):
        raise ConfigError(f"pause and resume take a topic, queues, or nothing for all, not {what!r:.100}")
    found = list(given)
    for each in found:
        if not isinstance(each, MessageQueue):
            raise ConfigError(f"pause and resume take a topic, queues, or nothing for all, not {each!r:.100}")
    return frozenset(found)


class Pauses:
    """The pauses of one consumer."""

    def __init__(self) -> None:
        self._all = False
        self._some: set[str | MessageQueue] = set()

    def covers(self, queue: MessageQueue) -> bool:
        """Whether a queue is paused."""
        return self._all or queue in self._some or queue.topic in self._some

    def add(self, what: frozenset[str] | frozenset[MessageQueue] | None) -> None:
        """Pause topics or queues, or everything if None."""
        if what is None:
            self._all = True
        else:
            self._some |= what

    def remove(self, what: frozenset[str] | frozenset[MessageQueue] | None) -> None:
        """Resume topics or queues, or everything if None. A queue whose topic is paused stays paused."""
        if what is None:
            self._all = False
            self._some.clear()
        else:
            self._some -= what
            self._some -= {each for each in self._some if isinstance(each, MessageQueue) and each.topic in what}
