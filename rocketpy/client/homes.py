"""Which portal a client of the blocking or the asyncio surface runs in.

Clients share the portal of the process, except those with hooks of the user's. Hooks are called for every request, so a
slow one should delay only its own client; such a client has a portal of its own.
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
    """The portal for a client, which is started if needed; that of the process if there is no client."""
    if client is None or not client.has_hooks_of_users:
        return portal()
    with _lock:  # two roles that share a client may start at the same time
        found = _own.get(client)
        if found is None or not found.is_usable:
            found = _own[client] = Portal("rocketpy-hooks")
            found.start()
        return found


def end_home(client: MQClientInstance) -> None:
    """End the portal that a client has of its own, if it has one. Never waits."""
    found = _own.pop(client, None)
    if found is not None:
        found.end_soon()


def _forget_after_fork() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
