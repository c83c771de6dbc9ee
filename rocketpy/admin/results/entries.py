"""What `Admin.messages.entries` returns. Pure."""

from __future__ import annotations

from typing import ClassVar

import attrs

from rocketpy.message import MessageQueue
from rocketpy.reprs import Short

__all__ = ["QueueEntries", "QueueEntry"]


@attrs.frozen(kw_only=True, repr=False)
class QueueEntry(Short):
    """An entry of a consume queue, which says where a message is."""

    offset: int
    """Its offset in the queue."""
    position: int
    """Position of the message in the commit log, in bytes."""
    size: int
    """Bytes of the message in the commit log."""
    tags_code: int
    """A hash of the tags of the message; of a delayed message, when it is due."""
    delivered: bool | None = None
    """Whether the subscription of the group lets the message through. None if no group was given, or if that cannot be
    told from the entry: it depends on properties, and the broker keeps no bit maps of filters."""
    extension: str | None = None
    """What is stored beside the entry for filters, as JSON; None if there is nothing."""
    remark: str | None = None
    """What the broker says of the entry; None if nothing."""


@attrs.frozen(kw_only=True, repr=False)
class QueueEntries(Short):
    """Entries of a consume queue."""

    _shown_first: ClassVar[tuple[str, ...]] = ("queue", "begin", "end")

    queue: MessageQueue
    begin: int
    """The offset of its oldest entry."""
    end: int
    """The offset that its next entry will get."""
    entries: tuple[QueueEntry, ...]
    """Sorted by offset."""
    expression: str | None = None
    """What the group subscribes to; None if no group was given, or if it does not subscribe to the topic."""
    filter: str | None = None
    """What the broker knows of a filter by properties, as JSON, or that the group is not online. None if there is no
    such filter, or if no group was given."""
