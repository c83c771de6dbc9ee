"""The topics of a cluster: `admin.topics`."""

from __future__ import annotations

from rocketpy.admin import topics
from rocketpy.sync.parts.part import Part, blocking

__all__ = ["Topics"]


class Topics(Part[topics.Topics]):
    """The topics of a cluster: ``admin.topics``."""

    __slots__ = ()

    list = blocking(topics.Topics.list)
    get = blocking(topics.Topics.get)
    get_all = blocking(topics.Topics.get_all)
    route = blocking(topics.Topics.route)
    stats = blocking(topics.Topics.stats)
    traffic = blocking(topics.Topics.traffic)
    create = blocking(topics.Topics.create)
    update = blocking(topics.Topics.update)
    delete = blocking(topics.Topics.delete)
