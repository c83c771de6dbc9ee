"""Where reading begins in each queue: at its begin or end, at an offset or a time, or with the last messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from rocketpy.cli.values import moment
from rocketpy.client.api import offset as offset_api
from rocketpy.errors import ConfigError
from rocketpy.moments import SECONDS_BELOW

if TYPE_CHECKING:
    from rocketpy.admin.servers import Servers
    from rocketpy.message import MessageQueue

__all__ = ["Bounds", "Start", "bounds_of", "parsed"]

_MOST_OFFSET = 2**63 - 1


@attrs.frozen
class Start:
    """Where reading begins."""

    word: str = "last"
    """"begin", "end", "offset", "time" or "last"."""
    value: int = 0
    """The offset, or the time in ms since 1970."""


@attrs.frozen
class Bounds:
    """What is to be read of a queue."""

    begin: int
    """The first offset."""
    end: int
    """The offset that its next message will get."""
    least: int
    """The offset of its oldest message."""


def parsed(text: str | None) -> Start:
    """The meaning of `--from`: "begin", "end", an offset, or a time; None stands for the last messages.

    Raises:
        ConfigError: it is none of these.
    """
    if text is None:
        return Start()
    if text in ("begin", "end"):
        return Start(text)
    digits = text.removeprefix("-")
    if not (digits.isdecimal() and digits.isascii()):
        return Start("time", moment("--from, unless it is begin, end or an offset,", text))
    number = int(text[:21])
    if number < 0:
        raise ConfigError(f"the offset {text:.40} is negative: leave --from out for the last messages")
    if number < SECONDS_BELOW:
        return Start("offset", number)
    if number > _MOST_OFFSET:
        raise ConfigError(f"{text:.40} is neither an offset nor a time: it is too large")
    return Start("time", number)


async def bounds_of(servers: Servers, address: str, queue: MessageQueue, start: Start) -> Bounds:
    """Find where reading of a queue begins, and where the queue ends now.

    Raises:
        RocketMQError: the broker cannot be reached, does not answer, or refuses.
    """
    pool, timeout = servers.client.pool, servers.timeout
    least = await offset_api.min_offset(pool, address, queue, timeout=timeout)
    end = await offset_api.max_offset(pool, address, queue, timeout=timeout)
    begin = end
    if start.word == "begin":
        begin = least
    elif start.word == "offset":
        begin = start.value
    elif start.word == "time":
        begin = await offset_api.search_offset(pool, address, queue, start.value, timeout=timeout)
    return Bounds(max(begin, least), end, least)
