"""A RocketMQ name server and broker in pure Python, compatible on the wire and on disk.

Real RocketMQ clients of any language can use them. They start quickly, embed in a test, and run as commands
(`rocketpy-namesrv`, `rocketpy-broker`, `rocketpy-broker-sim`).
"""

from __future__ import annotations

from rocketpy._version import __version__

__all__ = ["__version__"]
