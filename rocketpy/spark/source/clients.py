"""One client for each Python worker process and set of settings, shared by all reads there; kept as `Kept` says."""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING, TypeAlias

from rocketpy.spark.kept import Kept
from rocketpy.sync import MQClientInstance

if TYPE_CHECKING:
    from rocketpy.config import ClientConfig

__all__ = ["clients"]

Clients: TypeAlias = "Kept[ClientConfig, MQClientInstance]"


def _none_yet() -> Clients:
    return Kept(lambda config: MQClientInstance(config))


_current = _none_yet()


def clients() -> Clients:
    """The clients of this process."""
    return _current


def _forget_after_fork() -> None:
    global _current
    _current = _none_yet()  # the old ones are the parent's


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(lambda: _current.close())
