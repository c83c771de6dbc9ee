"""A RocketMQ client in pure Python, on trio.

The names exported here are the trio surface. `rocketpy.sync` offers the same names to blocking code.
The protocol itself (`rocketpy.wire`) does no I/O and may be used alone.
"""

from __future__ import annotations

from rocketpy._version import __version__

__all__ = ["__version__"]
