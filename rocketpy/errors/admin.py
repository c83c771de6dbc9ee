"""Errors of administration: what does not exist, what exists already, and commands that failed on some servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocketpy.errors.root import RocketMQError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "AlreadyExistsError",
    "BrokerNotFoundError",
    "BrokersFailedError",
    "GroupNotFoundError",
    "MessageNotFoundError",
]

_SHOWN = 5
"""How many servers the text of an error names."""


class BrokerNotFoundError(RocketMQError):
    """The name servers know no broker or cluster of that name.

    Attributes:
        name: The name that was asked for.
        known: The names that the name servers know.
    """

    nothing_sent = True

    def __init__(self, message: str, *, name: str, known: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.name = name
        self.known = tuple(known)


class GroupNotFoundError(RocketMQError):
    """No broker has the consumer group, no producer of the group is connected, or the given member is not connected.

    It is also raised if a broker that a command needs does not have the group, or if a group has no offsets to copy.

    Attributes:
        group: The group.
    """

    def __init__(self, message: str, *, group: str) -> None:
        super().__init__(message)
        self.group = group


class MessageNotFoundError(RocketMQError):
    """No broker that was asked has the message.

    Attributes:
        message_id: The id that was asked for.
    """

    def __init__(self, message: str, *, message_id: str) -> None:
        super().__init__(message)
        self.message_id = message_id


class AlreadyExistsError(RocketMQError):
    """The topic or group to create exists already; nothing was changed.

    Attributes:
        name: The name of the topic or group.
    """

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name


class BrokersFailedError(RocketMQError):
    """A command for several servers failed on some of them, or on all.

    Attributes:
        failures: The error of each server that failed, by the name or address of the broker, or the address of the name
            server.
        done: The names of the servers on which the command succeeded.
        result: What the call would have returned, made from the answers of the other servers; None if the call returns
            nothing.
    """

    def __init__(
        self, doing: str, *, failures: Mapping[str, RocketMQError], done: Sequence[str] = (), result: Any = None
    ) -> None:
        self.failures = dict(failures)
        self.done = tuple(done)
        self.result = result
        shown = "; ".join(f"{name}: {error}" for name, error in list(self.failures.items())[:_SHOWN])
        more = f"; and {len(self.failures) - _SHOWN} more" if len(self.failures) > _SHOWN else ""
        others = f"; succeeded on {_named(self.done)}" if self.done else ""
        super().__init__(
            f"{doing} failed on {len(self.failures)} of {len(self.failures) + len(self.done)} servers: "
            f"{shown}{more}{others}"
        )


def _named(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
