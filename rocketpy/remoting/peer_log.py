"""Log lines about peers: no more of them than somebody can read. A scanner may knock a thousand times a second."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import trio

from rocketpy.logs import quote

if TYPE_CHECKING:
    import logging

__all__ = ["PeerLog"]

_MAX_HOSTS = 1024


class PeerLog:
    """Warns about each host once in a while, and says how much it kept to itself."""

    def __init__(self, logger: logging.Logger, interval: float = 60.0) -> None:
        self._logger = logger
        self._interval = interval
        self._hosts: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def warn(self, host: str, what: str) -> None:
        """Log a line about a host, unless there was one within the interval."""
        now = trio.current_time()
        since, kept_back = self._hosts.pop(host, (-self._interval, 0))
        if now - since < self._interval:
            self._hosts[host] = (since, kept_back + 1)
            return
        more = f" ({kept_back} more were not logged)" if kept_back else ""
        self._logger.warning("%s: %s%s", quote(host), quote(what), more)
        self._hosts[host] = (now, 0)
        while len(self._hosts) > _MAX_HOSTS:
            self._hosts.popitem(last=False)
