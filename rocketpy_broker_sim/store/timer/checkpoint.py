"""The timer's checkpoint file, which has its progress. Plays the part of TimerCheckpoint.

The same numbers are the answer to GET_TIMER_CHECK_POINT. In the file, they are padded with zeros to a page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketpy.wire.bodies.timer import TimerCheckpoint

if TYPE_CHECKING:
    from rocketpy.seams import Storage

__all__ = ["PATH", "read_timer_checkpoint", "write_timer_checkpoint"]

PATH: Final = "config/timercheck"
_FILE_SIZE: Final = 4096
_LENGTH: Final = 56


def read_timer_checkpoint(storage: Storage) -> TimerCheckpoint | None:
    """The content of the file; None if there is no file, or it is cut off."""
    try:
        data = storage.read_bytes(PATH)
    except FileNotFoundError:
        return None
    return TimerCheckpoint.decode(data[:_LENGTH]) if len(data) >= _LENGTH else None


def write_timer_checkpoint(storage: Storage, checkpoint: TimerCheckpoint) -> None:
    """Overwrite the file and return when the disk has it; all of the content is in one sector.

    Raises:
        OSError: The disk refused.
    """
    is_new = not storage.exists(PATH)
    if is_new:
        storage.make_dir("config")
    file = storage.open(PATH, create=True)
    try:
        file.pwrite(checkpoint.encode().ljust(_FILE_SIZE, b"\0"), 0)
        file.fdatasync()
    finally:
        file.close()
    if is_new:
        storage.sync_dir("config")
