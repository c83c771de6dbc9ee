"""One blocking producer for each process and configuration, shared by all partitions that are written there.

They are kept as `rocketpy.spark.kept` says, and forgotten by a child after a fork. Not here: anything of Spark's.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rocketpy.spark.kept import IDLE, Kept
from rocketpy.sync import Producer

if TYPE_CHECKING:
    from rocketpy.config import ProducerConfig

__all__ = ["IDLE", "Producers", "producers"]


class Producers(Kept["ProducerConfig", Producer]):
    """The open producers of a process. Any thread may use it. Other arguments are those of `Kept`.

    Args:
        idle: seconds without use after which a producer is closed.
        make: makes a producer that is not started.
    """

    def __init__(
        self,
        idle: float = IDLE,
        *,
        make: Callable[[ProducerConfig], Producer] = lambda config: Producer(config=config),
        **others: Any,
    ) -> None:
        super().__init__(make, idle, **others)


# --- those of this process -----------------------------------------------------------------------------

_current = Producers()


def producers() -> Producers:
    """The producers of this process."""
    return _current


def _forget_after_fork() -> None:
    global _current
    _current = Producers()  # the sockets and threads of the old ones belong to the parent; their lock may be held


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(lambda: _current.close())
