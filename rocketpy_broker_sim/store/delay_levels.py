"""DelayLevels: the delays behind the levels of messages, as `messageDelayLevel` gives them. Pure."""

from __future__ import annotations

import re

from rocketpy.errors import ConfigError
from rocketpy.wire.properties import find_property
from rocketpy_broker_sim.store.queue.dispatch_request import tags_code_of

__all__ = ["DelayLevels"]

_DELAY = re.compile(r"(\d{1,9})([smhd])", re.ASCII)
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class DelayLevels:
    """The delays behind the levels 1, 2, ...; units of the schedule topic carry the time of delivery as tags code."""

    def __init__(self, text: str) -> None:
        self._delays = [_delay_ms(part) for part in text.split()]
        if not self._delays:
            raise ConfigError("messageDelayLevel: there is no delay, write at least one as in 1s 5s 10s")

    @property
    def count(self) -> int:
        """How many levels there are."""
        return len(self._delays)

    def delay(self, level: int) -> int:
        """Milliseconds of a level; the highest for what lies above it."""
        return self._delays[min(level, len(self._delays)) - 1]

    def deliver_time(self, properties: bytes, store_timestamp: int) -> int:
        """When a scheduled message is due; the hash of its tag when it names no level."""
        level = find_property(properties, b"DELAY")
        if level is None or not level.isdigit() or len(level) > 9 or int(level) == 0:
            return tags_code_of(properties)
        return store_timestamp + self.delay(int(level))


def _delay_ms(text: str) -> int:
    match = _DELAY.fullmatch(text)
    if match is None:
        raise ConfigError(f"messageDelayLevel: {text!r:.100} is not a delay, write a number and one of s, m, h, d")
    return int(match[1]) * _UNIT_MS[match[2]]
