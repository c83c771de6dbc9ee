"""Which portal a client of the blocking or the asyncio surface lives in.

All share the one of the process, save clients with hooks of the user's: those are called for every request, so a slow
one may hold up its own client and no other. Such a client has a portal to itself.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from rocketpy.portal import Portal, portal

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance

__all__ = ["end_home", "home_of"]

_own: WeakKeyDictionary[MQClientInstance, Portal] = WeakKeyDictionary()
_lock = threading.RLock()


def home_of(client: MQClientInstance | None) -> Portal:
    """The portal for a client, started when it is not there yet; without a client that of the process."""
    if client is None or not client.has_hooks_of_users:
        return portal()
    with _lock:  # two that share a client may start at the same time
        found = _own.get(client)
        if found is None or not found.is_usable:
            found = _own[client] = Portal("rocketpy-hooks")
            found.start()
        return found


def end_home(client: MQClientInstance) -> None:
    """Have the portal end that a client had to itself; does nothing for all others. Never waits."""
    found = _own.pop(client, None)
    if found is not None:
        found.end_soon()


def _forget_after_fork() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
