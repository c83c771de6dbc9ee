"""Connected producers: `admin.producers`."""

from __future__ import annotations

from rocketpy.admin import producers
from rocketpy.sync.parts.part import Part, blocking

__all__ = ["Producers"]


class Producers(Part[producers.Producers]):
    """Connected producers: ``admin.producers``."""

    __slots__ = ()

    connections = blocking(producers.Producers.connections)
    list = blocking(producers.Producers.list)
