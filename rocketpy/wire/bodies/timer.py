"""What a slave copies from its master about messages that are due later: how far the timer is, and how many wait."""

from __future__ import annotations

import struct
from typing import Self

import attrs

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.bodies.topics import DataVersion
from rocketpy.wire.json_body import Body, body, member
from rocketpy.wire.limits import DEFAULT_LIMITS, WireLimits

__all__ = ["TimerCheckpoint", "TimerMetric", "TimerMetrics"]

_LONGS = struct.Struct(">7q")
_OLD_LONGS = struct.Struct(">4q")


@attrs.define(kw_only=True)
class TimerCheckpoint:
    """How far the timer is: seven numbers in a row, not JSON. Also the file timercheck."""

    last_read_time_ms: int = 0
    last_timer_log_flush_pos: int = 0
    last_timer_queue_offset: int = 0
    master_timer_queue_offset: int = 0
    data_version: DataVersion = attrs.field(factory=lambda: DataVersion(timestamp=0))

    def encode(self) -> bytes:
        """The body as it travels."""
        version = self.data_version
        return _LONGS.pack(
            self.last_read_time_ms,
            self.last_timer_log_flush_pos,
            self.last_timer_queue_offset,
            self.master_timer_queue_offset,
            *(version.state_version, version.timestamp, version.counter),
        )

    @classmethod
    def decode(cls, data: bytes, *, limits: WireLimits = DEFAULT_LIMITS) -> Self:
        """Read a body; older brokers leave the version out.

        Raises:
            RemoteProtocolError: it has another length.
        """
        if len(data) not in (_LONGS.size, _OLD_LONGS.size):
            raise RemoteProtocolError(f"TimerCheckpoint: {len(data)} bytes, there should be {_LONGS.size}")
        read, flushed, queue, master = _OLD_LONGS.unpack_from(data)
        found = cls(
            last_read_time_ms=read,
            last_timer_log_flush_pos=flushed,
            last_timer_queue_offset=queue,
            master_timer_queue_offset=master,
        )
        if len(data) == _LONGS.size:
            state, timestamp, counter = _LONGS.unpack(data)[4:]
            found.data_version = DataVersion(state_version=state, timestamp=timestamp, counter=counter)
        return found


@body
class TimerMetric(Body):
    """How many messages of one topic wait, and since when that is so."""

    count: int = 0
    time_stamp: int = 0


@body
class TimerMetrics(Body):
    """How many messages wait, by topic. Also the file timermetrics."""

    timing_count: dict[str, TimerMetric] = member(factory=dict)
    data_version: DataVersion | None = None
