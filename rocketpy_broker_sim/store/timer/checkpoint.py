"""The timer's checkpoint file, which has its progress. Plays the part of TimerCheckpoint.

The same numbers are the answer to GET_TIMER_CHECK_POINT. In the file, they are padded with zeros to a page. Where
Apache's broker has zeros, there may be shifts: distances in ms between the slots in which messages are and those of
their times, because the wall clock was set back. Recalls need them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rocketpy.wire.bodies.timer import TimerCheckpoint

if TYPE_CHECKING:
    from rocketpy.seams import Storage

__all__ = ["PATH", "read_timer_checkpoint", "read_timer_shifts", "write_timer_checkpoint"]

PATH: Final = "config/timercheck"
_FILE_SIZE: Final = 4096
_LENGTH: Final = 56
_SHIFTS_AT: Final = 64
_MOST_SHIFTS: Final = 48
"""With so many, all of the content is in one sector; the largest are kept."""


def read_timer_checkpoint(storage: Storage) -> TimerCheckpoint | None:
    """The content of the file; None if there is no file, or it is cut off."""
    try:
        data = storage.read_bytes(PATH)
    except FileNotFoundError:
        return None
    return TimerCheckpoint.decode(data[:_LENGTH]) if len(data) >= _LENGTH else None


def read_timer_shifts(storage: Storage) -> list[int]:
    """The shifts in the file, ms; none if there is no file."""
    try:
        data = storage.read_bytes(PATH)
    except FileNotFoundError:
        return []
    if len(data) < _FILE_SIZE:
        return []
    found = struct.unpack_from(f">{_MOST_SHIFTS}q", data, _SHIFTS_AT)
    return [shift for shift in found if shift > 0]


def write_timer_checkpoint(storage: Storage, checkpoint: TimerCheckpoint, shifts: Sequence[int] = ()) -> None:
    """Overwrite the file and return when the disk has it; all of the content is in one sector.

    Args:
        storage: The directory.
        checkpoint: The numbers.
        shifts: The shifts of messages that wait, ms, in order.

    Raises:
        OSError: The disk refused.
    """
    is_new = not storage.exists(PATH)
    if is_new:
        storage.make_dir("config")
    file = storage.open(PATH, create=True)
    try:
        kept = shifts[-_MOST_SHIFTS:]
        content = checkpoint.encode().ljust(_SHIFTS_AT, b"\0") + struct.pack(f">{len(kept)}q", *kept)
        file.pwrite(content.ljust(_FILE_SIZE, b"\0"), 0)
        file.fdatasync()
    finally:
        file.close()
    if is_new:
        storage.sync_dir("config")
