"""A fork in a case: what the child finds is reported, and the parent goes on."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.ways_out.scene import SLACK, Place, Scene
from tests.ways_out.zygote import say, status_of

CHILD_WITHIN = 2.0 + SLACK
"""Less than the whole program has, which is to tell of a child that hangs."""


def forked(scene: Scene, in_child: Callable[[], dict[str, Any]], *, leave: bool = False) -> None:
    """Fork. The child reports what the function returns, and ends as an interpreter does; `leave`: at once.

    The parent waits for it, and reports its status; -9 where it had to be killed.
    """
    pid = os.fork()
    if pid == 0:
        say(child=in_child())
        if leave:
            os._exit(0)
        raise SystemExit(0)
    say(child_status=status_of(pid, CHILD_WITHIN))


def socket_names(place: Place) -> list[str]:
    """The servers to which this process has sockets, inherited or not."""
    servers = {place.namesrv, place.broker, place.broker_proxy, place.name_server_proxy}
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            copy = socket.socket(fileno=os.dup(int(entry.name)))
            with copy:
                if copy.family == socket.AF_INET:
                    host, port = copy.getpeername()
                    found.append(f"{host}:{port}")
    return sorted(servers.intersection(found))
