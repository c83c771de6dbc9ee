"""What to delete: what is old enough at an hour of the day or when the disk fills; anything when it is full. Pure.

Decides from numbers alone; it neither looks at a disk nor deletes anything. Plays the deciding half of
CleanCommitLogService.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rocketpy_broker_sim.config import MessageStoreConfig

__all__ = ["CleaningPlan", "DiskLevel", "disk_level", "how_many", "is_hour_to_delete", "plan"]

HOUR_MS = 3_600_000
_MAX_USED = (10, 95)
_FORCIBLY = (30, 100)
_WARNING = (35, 100)


class DiskLevel(IntEnum):
    """How full the disk is."""

    FINE = 0
    HIGH = 1
    """Files that are old enough go, whatever the hour."""
    VERY_HIGH = 2
    """Files go, whatever their age."""
    FULL = 3
    """The same, and nothing new is taken."""


class CleaningPlan(NamedTuple):
    """What one round of cleaning does to the commit log.

    Attributes:
        level: How full the disk is.
        files: How many files go, the oldest first.
        why: What for, in words; empty when nothing asked for it.
    """

    level: DiskLevel
    files: int
    why: str


def disk_level(usage: float, config: MessageStoreConfig) -> DiskLevel:
    """What a share in use (0.0 to 1.0) means under the settings, whose values are kept within sensible bounds."""
    percent = usage * 100
    if percent > _within(config.disk_space_warning_level_ratio, _WARNING):
        return DiskLevel.FULL
    if percent > _within(config.disk_space_clean_forcibly_ratio, _FORCIBLY):
        return DiskLevel.VERY_HIGH
    if percent > _within(config.disk_max_used_space_ratio, _MAX_USED):
        return DiskLevel.HIGH
    return DiskLevel.FINE


def _within(value: int, bounds: tuple[int, int]) -> int:
    return max(bounds[0], min(value, bounds[1]))


def is_hour_to_delete(when: str, now_ms: int) -> bool:
    """Whether the local hour is one of those in "04" or "04;16"."""
    hour = time.localtime(now_ms / 1000).tm_hour
    return any(int(part) == hour for part in when.split(";"))


def how_many(modified: Sequence[int], now_ms: int, reserved_ms: int, *, at_once: bool, most: int) -> int:
    """How many of the oldest files go.

    Args:
        modified: When each file was last changed, ms; the oldest file first, and only files that may go at all.
        now_ms: The time now.
        reserved_ms: How old they must be.
        at_once: Do not ask for their age.
        most: How many may go.
    """
    count = 0
    for changed in modified[:most]:
        if not at_once and now_ms < changed + reserved_ms:
            break  # never one from the middle
        count += 1
    return count


def plan(
    config: MessageStoreConfig, usage: float, modified: Sequence[int], now_ms: int, *, on_command: bool = False
) -> CleaningPlan:
    """What a round does.

    Args:
        config: Ages, hours and levels.
        usage: Share of the disk in use; of the fullest one, when log and queues lie on two.
        modified: As for `how_many`.
        now_ms: The time now.
        on_command: Whether an administrator has asked for it.
    """
    level = disk_level(usage, config)
    at_once = level >= DiskLevel.VERY_HIGH and config.clean_file_forcibly_enable
    if level > DiskLevel.FINE:
        why = f"{usage:.0%} of the disk are in use"
    elif on_command:
        why = "an administrator asked for it"
    elif is_hour_to_delete(config.delete_when, now_ms):
        why = "it is the hour to delete"
    else:
        return CleaningPlan(level, 0, "")
    reserved = config.file_reserved_time * HOUR_MS
    count = how_many(modified, now_ms, reserved, at_once=at_once, most=config.delete_file_batch_max)
    return CleaningPlan(level, count, why)
