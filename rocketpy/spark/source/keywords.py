"""The options of a read as Python values: what `rocketpy.spark.rdd` takes. Pure.

They become the same checked options that those of ``format("rocketmq")`` become.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias

from rocketpy.config import ClientConfig
from rocketpy.durations import duration
from rocketpy.errors import ConfigError
from rocketpy.message import MessageQueue
from rocketpy.moments import checked_moment
from rocketpy.spark.option_values import not_whole
from rocketpy.spark.settings import check_names
from rocketpy.spark.source.offsets import OffsetRange
from rocketpy.spark.source.options import NUMBERS, Assigned, Choice, SourceOptions, Topics, check_filters
from rocketpy.spark.source.positions import (
    EARLIEST,
    EARLIEST_MARK,
    LATEST,
    LATEST_MARK,
    AtOffsets,
    AtTime,
    Committed,
    Edge,
    Position,
)
from rocketpy.spark.source.ranges_told import check_end
from rocketpy.wire.names import check_group, check_topic

__all__ = ["Bound", "options_of"]

Bound: TypeAlias = "str | datetime | Mapping[MessageQueue, int | str]"
"""Where reading starts or ends."""
_EDGES: Final = {"earliest": EARLIEST, "latest": LATEST}
_MARKS: Final = {"earliest": EARLIEST_MARK, "latest": LATEST_MARK}
_NOT_HERE: Final = ("max_offsets_per_trigger", "min_offsets_per_trigger")
"""Numbers that are for streams."""
_NUMBERS: Final = {number.field: number for number in NUMBERS.values() if number.field not in _NOT_HERE}
_OWN: Final = ("topics", "start", "end", "tags", "sql", "group", "fail_on_data_loss", *_NUMBERS)
"""The settings that are not the client's: the error for a misspelled one suggests them."""
_LARGEST: Final = 2**63 - 1


def options_of(
    topics: object,
    start: object,
    end: object,
    namesrv: object,
    group: str | None,
    filters: Mapping[str, str | None],
    fail_on_data_loss: object,
    settings: Mapping[str, Any],
) -> SourceOptions:
    """The checked options of a read.

    Args:
        topics: what to read: topics, queues or offset ranges.
        start: where to start.
        end: where to end.
        namesrv: the name servers; those of the environment when None.
        group: the consumer group, if the user names one.
        filters: tags and sql.
        fail_on_data_loss: whether messages that are gone are an error.
        settings: those of the client, and the options that are numbers, by the fields of `SourceOptions`; None is the
            default of a number.

    Raises:
        ConfigError: one of them cannot be used, or two contradict each other.
    """
    choice, begin, stop = _what(topics, start, end)
    if group is not None:
        check_group(group)
    elif isinstance(begin, Committed):
        raise ConfigError("start='committed' means the committed offsets of a group: give the group too")
    if not isinstance(fail_on_data_loss, bool):
        raise ConfigError(f"fail_on_data_loss must be True or False, not {fail_on_data_loss!r:.100}")
    others: dict[str, Any] = {**_checked_filters(filters), **_checked_numbers(settings)}
    return SourceOptions(
        client=_client_config(namesrv, {name: value for name, value in settings.items() if name not in _NUMBERS}),
        choice=choice,
        start=begin,
        end=stop,
        consumer_group=group,
        fail_on_data_loss=fail_on_data_loss,
        **others,
    )


def _checked_filters(filters: Mapping[str, str | None]) -> dict[str, str]:
    given = {name: text for name, text in filters.items() if text is not None}
    for name, text in given.items():
        if not isinstance(text, str):
            raise ConfigError(f"{name} must be text, not {text!r:.100}")
    check_filters(given)
    return given


def _client_config(namesrv: object, settings: Mapping[str, Any]) -> ClientConfig:
    """The settings of the clients, on the driver and in executors."""
    check_names("rdd", settings, ClientConfig, _OWN)
    config = ClientConfig.of(None, **({} if namesrv is None else {"namesrv": namesrv}), **settings)
    if not config.namesrv:
        raise ConfigError("rdd needs namesrv, such as 'a:9876;b:9876' (or NAMESRV_ADDR, set on the driver)")
    return config


# --- what to read ---------------------------------------------------------------------------------------


def _what(topics: object, start: object, end: object) -> tuple[Choice, Position, Position]:
    given: list[Any] = [topics] if isinstance(topics, str) else _each(topics)
    kind = next((kind for kind in (str, MessageQueue, OffsetRange) if isinstance(given[0], kind)), None)
    for each in given:
        if kind is None or not isinstance(each, kind):
            raise ConfigError(f"topics must be all str, all MessageQueue or all OffsetRange, and has {each!r:.100}")
    if kind is OffsetRange:
        if start != "earliest" or end != "latest":
            raise ConfigError("offset ranges say where to start and where to end: leave out start and end")
        return _of_ranges(given)
    begin = Committed(EARLIEST) if start == "committed" else _position("start", start, EARLIEST)
    stop = _position("end", end, LATEST)
    check_end("end", stop)
    if kind is MessageQueue:
        return Assigned(tuple(dict.fromkeys(_queue("topics", each) for each in given)), "topics"), begin, stop
    for name in given:
        check_topic(name)
    return Topics(tuple(dict.fromkeys(given))), begin, stop


def _of_ranges(ranges: list[OffsetRange]) -> tuple[Choice, Position, Position]:
    name = "topics"
    starts: dict[MessageQueue, int] = {}
    ends: dict[MessageQueue, int] = {}
    for each in ranges:
        queue = _queue(name, each.queue)
        if queue in starts:
            raise ConfigError(f"{name} has {queue} twice: give one range for each queue")
        starts[queue], ends[queue] = _offset(name, queue, each.start), _offset(name, queue, each.until)
        if each.until < each.start:
            raise ConfigError(f"{name} has {each}, which ends before it starts")
    return Assigned(tuple(starts), name), AtOffsets(name, starts, EARLIEST), AtOffsets(name, ends, LATEST)


def _each(value: object) -> list[Any]:
    """The members of a list that is not empty. A queue is no list of its parts."""
    if isinstance(value, bytes | MessageQueue | OffsetRange) or not isinstance(value, Iterable):
        raise ConfigError(f"topics must be a topic or a list, not {value!r:.100}")
    found = list(value)
    if not found:
        raise ConfigError("topics is empty: nothing would be read")
    return found


def _queue(name: str, value: object) -> MessageQueue:
    if not isinstance(value, MessageQueue):
        raise ConfigError(f"{name} has {value!r:.100}: give MessageQueue(topic, broker_name, queue_id)")
    check_topic(value.topic)
    return value


def _position(name: str, value: object, others: Edge) -> Position:
    if isinstance(value, str) and value in _EDGES:
        return _EDGES[value]
    if isinstance(value, datetime):
        return AtTime(name, max(0, checked_moment(name, value)), others, or_latest=True)
    if isinstance(value, Mapping):
        offsets = {_queue(name, queue): _offset(name, queue, each, words=True) for queue, each in value.items()}
        return AtOffsets(name, offsets, others)
    more = ', "committed"' if name == "start" else ""
    raise ConfigError(
        f'{name} must be "earliest", "latest"{more}, a datetime with a time zone, or a dict of offsets by '
        f"MessageQueue, not {value!r:.100}"
    )


def _offset(name: str, queue: MessageQueue, value: object, *, words: bool = False) -> int:
    if words and isinstance(value, str) and value in _MARKS:
        return _MARKS[value]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
        more = ', "earliest" or "latest"' if words else ""
        raise ConfigError(f"{name} has {value!r:.100} for {queue}: give an offset from 0 on{more}")
    return value


# --- numbers --------------------------------------------------------------------------------------------


def _checked_numbers(given: Mapping[str, object]) -> dict[str, int | float]:
    return {name: _number(name, value) for name, value in given.items() if name in _NUMBERS and value is not None}


def _number(name: str, value: Any) -> int | float:
    _, low, high, scale = _NUMBERS[name]
    if scale is None:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise not_whole(name, value, low, high)
        return value
    seconds: Any = duration(value)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not low * scale <= seconds <= high * scale:
        raise ConfigError(
            f"{name} must be between {low * scale:g} and {high * scale:g} seconds, or a timedelta, not {value!r:.100}"
        )
    return seconds
