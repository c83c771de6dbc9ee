"""Where reading starts and ends, as options say it: the texts, and the JSON that names queues. Pure.

What it means for the queues that there are is found out by `rocketpy.spark.source.resolving`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from rocketpy.errors import ConfigError
from rocketpy.message import MessageQueue
from rocketpy.moments import checked_moment
from rocketpy.spark.option_values import json_value
from rocketpy.wire.names import check_topic

__all__ = [
    "EARLIEST",
    "EARLIEST_MARK",
    "LATEST",
    "LATEST_MARK",
    "AtOffsets",
    "AtTime",
    "Committed",
    "Edge",
    "Position",
    "offsets_option",
    "queues_of_json",
    "times",
]

EARLIEST_MARK: Final = -2
LATEST_MARK: Final = -1
"""What stands for the ends of a queue in JSON, as in Kafka."""
_EXAMPLE: Final = '{"topic": {"broker": {"0": 23}}}'
_LARGEST: Final = 2**63 - 1


@attrs.frozen
class Edge:
    """The first or the last offset of every queue."""

    is_end: bool

    def __str__(self) -> str:
        """As options name it."""
        return "latest" if self.is_end else "earliest"


EARLIEST: Final = Edge(is_end=False)
LATEST: Final = Edge(is_end=True)


@attrs.frozen
class AtOffsets:
    """Offsets by queue; queues that are not named are at `others`."""

    option: str
    """The option that says so, for errors."""
    offsets: dict[MessageQueue, int] = attrs.field(hash=False)
    others: Edge

    def at(self, queue: MessageQueue) -> Edge | int:
        """Where a queue is read from or to."""
        offset = self.offsets.get(queue)
        if offset is None:
            return self.others
        return {EARLIEST_MARK: EARLIEST, LATEST_MARK: LATEST}.get(offset, offset)


@attrs.frozen
class AtTime:
    """The first message that was stored at a time or later: one time for all queues, or times by queue."""

    option: str
    """The option that says so, for errors."""
    times: dict[MessageQueue, int] | int = attrs.field(hash=False)
    """Milliseconds since 1970."""
    others: Edge
    """Where queues are that have no time."""
    or_latest: bool
    """Whether a queue without such a message is at its end; otherwise that is an error."""

    def at(self, queue: MessageQueue) -> int | None:
        """The time for a queue, None if it has none."""
        return self.times if isinstance(self.times, int) else self.times.get(queue)


@attrs.frozen
class Committed:
    """The offsets that the group has committed; queues without one are at `others`."""

    others: Edge


Position: TypeAlias = Edge | AtOffsets | AtTime | Committed


def offsets_option(name: str, text: str, *, others: Edge) -> Edge | AtOffsets:
    """The value of startingOffsets or endingOffsets.

    Args:
        name: the option, for errors.
        text: "earliest", "latest", or JSON.
        others: where queues are that the JSON does not name.

    Raises:
        ConfigError: it is none of these.
    """
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return LATEST if word == "latest" else EARLIEST
    if not word.startswith("{"):
        raise ConfigError(f'{name} must be "earliest", "latest", or JSON such as {_EXAMPLE}, not {text!r:.100}')
    found: dict[MessageQueue, int] = {}
    for queue, value in _pairs(name, text, lambda value: isinstance(value, dict)):
        if isinstance(value, bool) or not isinstance(value, int) or not EARLIEST_MARK <= value <= _LARGEST:
            raise ConfigError(
                f"{name} has {value!r:.100} for {queue}: give an offset from 0 on, -2 for the earliest or -1 for the "
                "latest"
            )
        found[queue] = value
    return AtOffsets(name, found, others)


def times(name: str, text: str) -> dict[MessageQueue, int]:
    """The value of startingOffsetsByTimestamp or endingOffsetsByTimestamp.

    Raises:
        ConfigError: it is no JSON that names queues and times.
    """
    found = dict(_pairs(name, text, lambda value: isinstance(value, dict)))
    for queue, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
            raise ConfigError(f"{name} has {value!r:.100} for {queue}: give milliseconds since 1970")
        checked_moment(f"the time of {queue} in {name}", value)
    return found


def queues_of_json(name: str, text: str) -> tuple[MessageQueue, ...]:
    """The value of assign: ``{"topic": {"broker": [0, 1]}}``.

    Raises:
        ConfigError: it is no JSON that names queues.
    """
    found = tuple(queue for queue, _ in _pairs(name, text, lambda value: isinstance(value, list)))
    if not found:
        raise ConfigError(f"{name} names no queue: give JSON such as {_example(name)}")
    return found


def _pairs(name: str, text: str, holds_queues: Callable[[Any], bool]) -> list[tuple[MessageQueue, Any]]:
    """Queues and what stands with them, out of JSON."""
    found: list[tuple[MessageQueue, Any]] = []
    for topic, brokers in _read(name, text).items():
        if topic.startswith("#"):  # a note of ours in offsets that were copied from the progress of a query
            continue
        check_topic(topic)
        for broker, queues in _mapping(name, brokers).items():
            if not holds_queues(queues):
                raise _wrong_form(name, queues)
            each = queues.items() if isinstance(queues, dict) else ((number, None) for number in queues)
            found += [(MessageQueue(topic, broker, _number(name, number)), value) for number, value in each]
    return found


def _read(name: str, text: str) -> Mapping[str, Any]:
    return _mapping(name, json_value(name, text, _example(name)))


def _mapping(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _wrong_form(name, value)
    return value


def _wrong_form(name: str, value: object) -> ConfigError:
    return ConfigError(f"{name} has {value!r:.100} in the wrong place: give JSON such as {_example(name)}")


def _example(name: str) -> str:
    return '{"topic": {"broker": [0, 1]}}' if name == "assign" else _EXAMPLE


def _number(name: str, value: object) -> int:
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ConfigError(f"{name} has the queue {value!r:.100}: the queues of a broker are numbered from 0")
    return int(text)
