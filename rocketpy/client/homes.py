"""Which portal a client of the blocking or the asyncio surface runs in.

Clients share the portal of the process, except those with hooks of the user's. Hooks are called for every request, so a
slow one should delay only its own client: that client has a portal of its own, which ends once nothing in it is open.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

from rocketpy.portal import Portal, portal

if TYPE_CHECKING:
    import trio

    from rocketpy.client.instance import MQClientInstance

__all__ = ["home_of"]


class _Home(Portal):
    """The portal of one client. It ends once it no longer holds the client, or anything that uses it."""

    def __init__(self, client: MQClientInstance) -> None:
        super().__init__("rocketpy-hooks")
        self._client = ref(client)
        self._held = 0

    async def hold(self, function: Callable[[trio.TaskStatus[None]], Awaitable[object]]) -> None:
        """Run an async function in a task, and return when it says that it has started."""

        async def held(task_status: trio.TaskStatus[None]) -> None:
            self._held += 1
            try:
                await function(task_status)
            finally:
                self._held -= 1
                if not self._held:
                    self._end()

        await super().hold(held)

    def _end(self) -> None:
        client = self._client()
        with _lock:
            if client is not None and _own.get(client) is self:
                del _own[client]
        self.end_soon()


_own: WeakKeyDictionary[MQClientInstance, _Home] = WeakKeyDictionary()
_lock = threading.RLock()


def home_of(client: MQClientInstance | None) -> Portal:
    """Return the portal for a client, or that of the process if there is no client. Starts it if needed."""
    if client is None or not client.has_hooks_of_users:
        return portal()
    with _lock:  # two roles that share a client may start at the same time
        found = _own.get(client)
        if found is None or not found.is_usable:
            found = _own[client] = _Home(client)
            found.start()
        return found


def _forget_after_fork() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
