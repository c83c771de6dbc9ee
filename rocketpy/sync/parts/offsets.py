"""The offsets of consumer groups: `admin.offsets`."""

from __future__ import annotations

from rocketpy.admin import offsets
from rocketpy.sync.parts.part import Part, blocking

__all__ = ["Offsets"]


class Offsets(Part[offsets.Offsets]):
    """The offsets of consumer groups: ``admin.offsets``."""

    __slots__ = ()

    lag = blocking(offsets.Offsets.lag)
    lags = blocking(offsets.Offsets.lags)
    at = blocking(offsets.Offsets.at)
    reset = blocking(offsets.Offsets.reset)
    commit = blocking(offsets.Offsets.commit)
    clone = blocking(offsets.Offsets.clone)
