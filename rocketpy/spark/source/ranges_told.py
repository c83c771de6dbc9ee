"""Which of the options say where reading starts and ends; at most one of each kind may. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rocketpy.errors import ConfigError
from rocketpy.moments import checked_moment
from rocketpy.spark.option_values import one_word, whole_number
from rocketpy.spark.source.positions import (
    EARLIEST,
    EARLIEST_MARK,
    LATEST,
    AtOffsets,
    AtTime,
    Edge,
    Position,
    offsets_option,
    times,
)

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue

__all__ = ["check_end", "end_of", "start_of"]

_STARTS = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
_ENDS = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_STRATEGY = "startingOffsetsByTimestampStrategy"


def start_of(own: Mapping[str, str], default: Edge) -> Position:
    """Where reading starts; queues that JSON does not name are read from their earliest messages on.

    Raises:
        ConfigError: an option cannot be used, or two contradict each other.
    """
    name = _the_one(own, _STARTS)
    strategy = one_word(_STRATEGY, own.get(_STRATEGY, "error"), "error", "latest")
    if _STRATEGY in own and name not in _STARTS[1:]:
        raise ConfigError(f"{_STRATEGY} is for startingTimestamp and startingOffsetsByTimestamp, and neither is given")
    if name is None:
        return default
    if name == "startingOffsets":
        return offsets_option(name, own[name], others=EARLIEST)
    return AtTime(name, _times(name, own[name]), EARLIEST, or_latest=strategy == "latest")


def end_of(own: Mapping[str, str]) -> Position:
    """Where a batch read ends; queues that JSON does not name are read to their latest messages.

    Raises:
        ConfigError: an option cannot be used, or two contradict each other.
    """
    name = _the_one(own, _ENDS)
    if name is None:
        return LATEST
    if name != "endingOffsets":
        return AtTime(name, _times(name, own[name]), LATEST, or_latest=True)
    end = offsets_option(name, own[name], others=LATEST)
    check_end(name, end)
    return end


def check_end(name: str, end: Position) -> None:
    """Refuse an end at which nothing would be read.

    Args:
        name: the option, for errors.
        end: where reading ends.

    Raises:
        ConfigError: it is the earliest offset, of all queues or of one.
    """
    if end == EARLIEST or (isinstance(end, AtOffsets) and EARLIEST_MARK in end.offsets.values()):
        raise ConfigError(f"{name} must not be the earliest: nothing would be read")


def _the_one(own: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    given = [name for name in names if name in own]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} contradict each other: give one of them")
    return given[0] if given else None


def _times(name: str, text: str) -> dict[MessageQueue, int] | int:
    if name.endswith("Timestamp") and not name.endswith("ByTimestamp"):
        return checked_moment(name, whole_number(name, text, 0))
    return times(name, text)
