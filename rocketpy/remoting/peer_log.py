"""Log lines about peers: no more of them than somebody can read. A scanner may knock a thousand times a second."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING

import trio

from rocketpy.logs import counted, quote
from rocketpy.remoting.timers import Alarm

if TYPE_CHECKING:
    import logging

    from rocketpy.remoting.timers import Timers

__all__ = ["PeerLog"]

_MAX_HOSTS = 1024
_MAX_LINES = 60


class PeerLog:
    """Warns about each host once in an interval. When the interval is over, it logs how many lines it left out.

    Args:
        logger: where the lines go.
        interval: seconds between two lines about one host. All hosts together get 60 lines in that time.
        timers: ring when a count is due; without them the next line about the host has the count.
    """

    def __init__(self, logger: logging.Logger, interval: float = 60.0, timers: Timers | None = None) -> None:
        self._logger = logger
        self._interval = interval
        self._hosts: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._alarm = None if timers is None else Alarm(timers, self._ring)
        self._lines = 0
        self._lines_since = -math.inf
        self._of_others = 0

    def warn(self, host: str, what: str) -> None:
        """Log a line about a host, unless there was one within the interval, or too many about others."""
        now = trio.current_time()
        since, kept_back = self._hosts.pop(host, (-math.inf, 0))
        if now - since < self._interval:
            self._hosts[host] = (since, kept_back + 1)
            self._look_again(since + self._interval)
            return
        if not self._may_log(now):
            self._of_others += 1 + kept_back
            self._look_again(self._lines_since + self._interval)
            return
        more = f" ({kept_back} more were not logged)" if kept_back else ""
        self._logger.warning("%s: %s%s", quote(host), quote(what), more)
        self._hosts[host] = (now, 0)
        while len(self._hosts) > _MAX_HOSTS:
            self._of_others += self._hosts.popitem(last=False)[1][1]

    def tell(self) -> None:
        """Log how many lines were left out and not told yet."""
        self._tell(math.inf)

    def _tell(self, now: float) -> None:
        due = 0
        for host, (since, kept_back) in [*self._hosts.items()]:
            if kept_back and now - since >= self._interval:
                due += kept_back
                self._hosts[host] = (since, 0)
        if now - self._lines_since >= self._interval:
            due, self._of_others = due + self._of_others, 0
        if due:
            self._logger.warning("not logged: %s about peers", counted(due, "more line"))

    def _may_log(self, now: float) -> bool:
        if now - self._lines_since >= self._interval:
            self._lines, self._lines_since = 0, now
        self._lines += 1
        return self._lines <= _MAX_LINES

    def _look_again(self, when: float) -> None:
        if self._alarm is not None:
            self._alarm.set(when)

    def _ring(self, now: float) -> float:
        self._tell(now)
        kept_back = [since + self._interval for since, count in self._hosts.values() if count]
        if self._of_others:
            kept_back.append(self._lines_since + self._interval)
        return min(kept_back, default=math.inf)
