"""MessageQueue: one queue of a topic on one broker. Plays the part of MessageQueue."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MessageQueue"]


class MessageQueue(NamedTuple):
    """One queue. Sorts by topic, broker and number, as every client of a group has to sort to agree on who reads what.

    Names compare by code point; RocketMQ's names are ASCII, where that is Java's order too.
    """

    topic: str
    """The topic's name."""
    broker_name: str
    """Name of the broker that holds the queue; a master and its slaves share one."""
    queue_id: int
    """Number of the queue among those of its topic on this broker, from 0."""

    def __str__(self) -> str:
        """Short form for logs."""
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"
