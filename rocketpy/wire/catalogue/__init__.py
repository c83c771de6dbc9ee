"""The rest of the protocol: what is declared, and what no code of rocketpy uses yet.

`exchanges` names the headers and bodies of every request code; tests, the documentation and tools use it. The folders
have the subjects of which nothing is used: POP consumption, controllers, replication, accounts, static topics, cold
data. A subject moves to `wire.headers` and `wire.bodies` with the first code that uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["UNUSED"]

UNUSED: Final[Mapping[str, tuple[str, ...]]] = {
    "bodies.offsets": ("OffsetMovedEvent",),
    "bodies.replication": (
        "EpochEntry",
        "EpochEntryCache",
        "SyncStateSet",
    ),
    "bodies.stats": ("QueryConsumeTimeSpanBody",),
    "headers.admin": (
        "CheckRocksdbCqWriteProgressRequestHeader",
        "ExportRocksDBConfigToJsonRequestHeader",
        "SetCommitLogReadModeRequestHeader",
    ),
    "headers.group": ("HeartbeatResponseHeader",),
}
"""Module -> its classes that no code uses yet, in modules of which other classes are used. A test keeps it true."""
