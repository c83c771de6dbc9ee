"""MessageQueue: one queue of a topic on one broker. Plays the part of MessageQueue."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MessageQueue"]


class MessageQueue(NamedTuple):
    """One queue. Sorts by topic, broker and number, as every client of a group has to sort to agree on who reads what.

    Names compare by code point; RocketMQ's names are ASCII, where that is Java's order too.
    """

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        """Short form for logs."""
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"
