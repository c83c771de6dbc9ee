"""Sockets that do not cross a fork: the child closes its copies at once, and the parent does not notice.

A child that kept them would keep connections alive that the parent has closed, and ports taken that nobody serves. The
copies are only closed: nothing is shut down and no byte is sent, so that peers see no end of the connection. A program
that is executed, as by subprocess, gets none of them anyway.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    import socket

__all__ = ["close_in_child", "no_fork"]

_lock = threading.RLock()
"""Held during a fork, and where sockets change hands. For a moment only: a fork in another thread waits for it."""
_sockets: WeakSet[socket.socket] = WeakSet()


def close_in_child(sock: socket.socket) -> None:
    """Have the children of this process close their copies of a socket as soon as they are forked.

    Needed once for each object that owns a descriptor: after `detach`, or `SSLContext.wrap_socket`, the new owner is
    named too. A socket that is closed, or gone, needs no word: the object is remembered, never its number, which may
    belong to somebody else by then. For asyncio make the socket first, name it here, and give it to
    ``loop.create_connection(..., sock=sock)``. Any thread may call this.
    """
    with _lock:
        _sockets.add(sock)


@contextmanager
def no_fork() -> Iterator[None]:
    """Let no thread fork during a block that makes a socket and names it, or closes one.

    In between a child would have a descriptor that no object knows of. The block must not wait for anything.
    """
    with _lock:
        yield


def _close_all() -> None:
    """In the child: close what is open, also where somebody else refers to the objects."""
    for sock in list(_sockets):
        with suppress(OSError):
            # Not `close`, which leaves it open while a file or an event loop counts on it.
            descriptor = sock.detach()
            if descriptor >= 0:
                os.close(descriptor)
    _sockets.clear()


if hasattr(os, "register_at_fork"):
    # The forking thread owns the lock in the child too, under its old name.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
    os.register_at_fork(after_in_child=_close_all)
