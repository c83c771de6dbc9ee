"""The consumer groups of a cluster: `admin.groups`."""

from __future__ import annotations

from rocketpy.admin import groups
from rocketpy.sync.parts.part import Part, blocking

__all__ = ["Groups"]


class Groups(Part[groups.Groups]):
    """The consumer groups of a cluster: ``admin.groups``."""

    __slots__ = ()

    list = blocking(groups.Groups.list)
    get = blocking(groups.Groups.get)
    get_all = blocking(groups.Groups.get_all)
    create = blocking(groups.Groups.create)
    update = blocking(groups.Groups.update)
    delete = blocking(groups.Groups.delete)
    set_readable = blocking(groups.Groups.set_readable)
