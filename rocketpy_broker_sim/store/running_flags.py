"""RunningFlags: reasons why a store must not be read or written for the time being, a bit each.

The bits are those of Java, and tools show them. They live in memory alone: a restart clears them, because it tries
again what has failed. Plays the part of RunningFlags.
"""

from __future__ import annotations

from _thread import allocate_lock
from enum import IntFlag

from rocketpy.logs import get_logger

__all__ = ["RunningFlag", "RunningFlags"]

log = get_logger(__name__)


class RunningFlag(IntFlag):
    """One reason."""

    NOT_READABLE = 1
    NOT_WRITABLE = 1 << 1
    QUEUE_ERROR = 1 << 2
    """Units could not be added to the consume queues, however often it was tried."""
    INDEX_ERROR = 1 << 3
    """The key index could not be written, however often it was tried. It stops no message: no send is worth a key."""
    DISK_FULL = 1 << 4
    """The disk of the commit log is too full for more."""
    FENCED = 1 << 5
    """Another broker took this one's place as the master."""
    QUEUE_DISK_FULL = 1 << 6
    """The disk of the consume queues is too full for more."""


_NOT_WRITABLE = ~(RunningFlag.NOT_READABLE | RunningFlag.INDEX_ERROR) & 0x7F


class RunningFlags:
    """The reasons that hold now.

    Attributes:
        bits: Java's word of them; 0 when everything is well.
    """

    __slots__ = ("_changing", "bits")

    def __init__(self) -> None:
        self.bits = 0
        self._changing = allocate_lock()  # the loop sets them, and a thread whose flush fails

    @property
    def is_readable(self) -> bool:
        """Whether messages may be given out."""
        return not self.bits & RunningFlag.NOT_READABLE

    @property
    def is_writable(self) -> bool:
        """Whether messages may be taken."""
        return not self.bits & _NOT_WRITABLE

    def has(self, flag: RunningFlag) -> bool:
        """Whether this reason holds."""
        return bool(self.bits & flag)

    def set(self, flag: RunningFlag) -> bool:
        """Let a reason hold from now on. Returns whether it did not before."""
        with self._changing:
            if self.bits & flag:
                return False
            self.bits |= flag
        log.warning("the store is marked %s, its flags are now %s", flag.name, self)
        return True

    def clear(self, flag: RunningFlag) -> bool:
        """Let a reason hold no more. Returns whether it did before."""
        with self._changing:
            if not self.bits & flag:
                return False
            self.bits &= ~flag
        log.info("the store is no longer marked %s, its flags are now %s", flag.name, self)
        return True

    def __str__(self) -> str:
        """The names of those that hold, joined by "|"; "NONE" without any."""
        return "|".join(flag.name or "" for flag in RunningFlag if self.bits & flag) or "NONE"
