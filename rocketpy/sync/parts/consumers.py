"""Connected consumers: `admin.consumers`."""

from __future__ import annotations

from rocketpy.admin import consumers
from rocketpy.sync.parts.part import Part, blocking

__all__ = ["Consumers"]


class Consumers(Part[consumers.Consumers]):
    """Connected consumers: ``admin.consumers``."""

    __slots__ = ()

    connections = blocking(consumers.Consumers.connections)
    of_topic = blocking(consumers.Consumers.of_topic)
    topics = blocking(consumers.Consumers.topics)
    state = blocking(consumers.Consumers.state)
    offsets = blocking(consumers.Consumers.offsets)
    consume = blocking(consumers.Consumers.consume)
