"""Bits of the several flag words: of a stored message, of a pull request, of a topic, and permissions.

Plain numbers, for these are tested once a message. Plays the part of MessageSysFlag, PullSysFlag, TopicSysFlag and
PermName.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "BORN_HOST_V6",
    "COMPRESSED",
    "COMPRESSION_TYPE_MASK",
    "COMPRESSION_TYPE_SHIFT",
    "INNER_BATCH",
    "MULTI_TAGS",
    "NEED_UNWRAP",
    "STORE_HOST_V6",
    "TRANSACTION_COMMIT",
    "TRANSACTION_MASK",
    "TRANSACTION_NONE",
    "TRANSACTION_PREPARED",
    "TRANSACTION_ROLLBACK",
    "Permission",
    "PullSysFlag",
    "TopicSysFlag",
    "with_transaction_type",
]

# --- the flag word of a message ------------------------------------------------------------------------

COMPRESSED: Final = 0x1
MULTI_TAGS: Final = 0x2
TRANSACTION_NONE: Final = 0x0
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC
TRANSACTION_MASK: Final = 0xC
BORN_HOST_V6: Final = 0x10
STORE_HOST_V6: Final = 0x20
NEED_UNWRAP: Final = 0x40
INNER_BATCH: Final = 0x80
COMPRESSION_TYPE_MASK: Final = 0x700
COMPRESSION_TYPE_SHIFT: Final = 8


def with_transaction_type(sys_flag: int, kind: int) -> int:
    """The flag word with its transaction bits replaced by one of the TRANSACTION_ values."""
    return sys_flag & ~TRANSACTION_MASK | kind


# --- other flag words ----------------------------------------------------------------------------------


class PullSysFlag:
    """Bits of a pull request."""

    COMMIT_OFFSET: Final = 0x1
    SUSPEND: Final = 0x2
    SUBSCRIPTION: Final = 0x4
    CLASS_FILTER: Final = 0x8
    LITE_PULL: Final = 0x10

    @staticmethod
    def build(
        *,
        commit_offset: bool = False,
        suspend: bool = False,
        subscription: bool = False,
        class_filter: bool = False,
        lite_pull: bool = False,
    ) -> int:
        """The word with the named bits set."""
        return commit_offset | suspend << 1 | subscription << 2 | class_filter << 3 | lite_pull << 4


class TopicSysFlag:
    """Bits of a topic."""

    UNIT: Final = 0x1
    UNIT_SUB: Final = 0x2


class Permission:
    """What may be done with the queues of a topic."""

    INHERIT: Final = 0x1
    WRITE: Final = 0x2
    READ: Final = 0x4
    PRIORITY: Final = 0x8

    @staticmethod
    def is_valid(permission: int) -> bool:
        """Whether an administrator may set this value."""
        return 0 <= permission < Permission.PRIORITY

    @staticmethod
    def is_readable(permission: int) -> bool:
        """Whether consumers may read."""
        return permission & Permission.READ != 0

    @staticmethod
    def is_writable(permission: int) -> bool:
        """Whether producers may write."""
        return permission & Permission.WRITE != 0

    @staticmethod
    def is_inherited(permission: int) -> bool:
        """Whether topics that are made on first send may copy this one."""
        return permission & Permission.INHERIT != 0

    @staticmethod
    def text(permission: int) -> str:
        """Short form, for instance "RW-"."""
        return "".join(
            letter if permission & bit else "-"
            for letter, bit in (("R", Permission.READ), ("W", Permission.WRITE), ("X", Permission.INHERIT))
        )
