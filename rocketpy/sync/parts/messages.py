"""The messages of a cluster: `admin.messages`."""

from __future__ import annotations

from rocketpy.admin import messages
from rocketpy.sync.parts.part import Part, blocking

__all__ = ["Messages"]


class Messages(Part[messages.Messages]):
    """The messages of a cluster: ``admin.messages``."""

    __slots__ = ()

    view = blocking(messages.Messages.view)
    query = blocking(messages.Messages.query)
    query_unique = blocking(messages.Messages.query_unique)
    read = blocking(messages.Messages.read)
    entries = blocking(messages.Messages.entries)
    by_time = blocking(messages.Messages.by_time)
    resend = blocking(messages.Messages.resend)
    dead_letters = blocking(messages.Messages.dead_letters)
    replay_dead_letters = blocking(messages.Messages.replay_dead_letters)
    track = blocking(messages.Messages.track)
    trace = blocking(messages.Messages.trace)
