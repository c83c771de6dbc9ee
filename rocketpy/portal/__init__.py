"""The portal: the background trio thread of a process, through which blocking and asyncio code uses the trio core.

`Portal.call` runs an async function there and waits; `post` runs a plain function there soon; an `Opened` enters an
async context manager there and leaves it later.
"""

from __future__ import annotations

from rocketpy.portal.loop import Portal, before_end, portal
from rocketpy.portal.opened import Opened
from rocketpy.portal.pending import Call, Pending, StartSoon

__all__ = ["Call", "Opened", "Pending", "Portal", "StartSoon", "before_end", "portal"]
