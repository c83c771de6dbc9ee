"""What a source is told: every option checked where the query is made, on the driver, before anything runs. Pure.

The checked options travel to the executors. Their text shows no secrets, whatever prints it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import attrs

from rocketpy.config import ClientConfig
from rocketpy.errors import ConfigError
from rocketpy.message import MessageQueue
from rocketpy.spark.option_values import boolean, whole_number
from rocketpy.spark.source.client_settings import client_config
from rocketpy.spark.source.names import sorted_out
from rocketpy.spark.source.positions import EARLIEST, LATEST, Position, queues_of_json
from rocketpy.spark.source.ranges_told import end_of, start_of
from rocketpy.spark.source.shape import Shape, shape_of
from rocketpy.wire.bodies import subscription
from rocketpy.wire.names import check_group, check_topic

__all__ = [
    "GROUP",
    "NUMBERS",
    "Assigned",
    "Choice",
    "NumberOption",
    "Pattern",
    "SourceOptions",
    "Topics",
    "batch_options",
    "check_filters",
    "stream_options",
]

GROUP: Final = "rocketpy-spark-source"
"""The consumer group of pulls where the user names none; it commits nothing."""
_DELAY: Final = re.compile(r"\s*([0-9]{1,9})\s*(ms|s|sec|m|min|h|d)?\s*")
_SECONDS: Final = {"ms": 0.001, None: 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class NumberOption(NamedTuple):
    """An option that is a number, and its bounds."""

    field: str
    """The name of the field of `SourceOptions`."""
    low: int
    """The least value, in the unit of the option."""
    high: int
    """The greatest value, in the unit of the option."""
    scale: float | None
    """The unit of the option in seconds; None where it counts something."""


NUMBERS: Final[Mapping[str, NumberOption]] = {
    "minPartitions": NumberOption("min_partitions", 1, 2**31 - 1, None),
    "maxRecordsPerPartition": NumberOption("max_records_per_partition", 1, 2**63 - 1, None),
    "maxOffsetsPerTrigger": NumberOption("max_offsets_per_trigger", 1, 2**63 - 1, None),
    "minOffsetsPerTrigger": NumberOption("min_offsets_per_trigger", 1, 2**63 - 1, None),
    "pullBatchSize": NumberOption("pull_batch_size", 1, 1024, None),
    "pullTimeoutMs": NumberOption("pull_timeout", 10, 600_000, 0.001),
    "fetchOffset.numRetries": NumberOption("retries", 0, 1_000_000, None),
    "fetchOffset.retryIntervalMs": NumberOption("retry_interval", 0, 600_000, 0.001),
}
"""The options that are numbers, by name."""


@attrs.frozen
class Topics:
    """The option subscribe: all queues of these topics."""

    names: tuple[str, ...]


@attrs.frozen
class Pattern:
    """The option subscribePattern: all queues of the topics whose whole names match."""

    expression: str


@attrs.frozen
class Assigned:
    """The option assign: these queues."""

    queues: tuple[MessageQueue, ...]
    option: str = "assign"
    """The option that says so, for errors."""


Choice: TypeAlias = Topics | Pattern | Assigned


def _shown(config: ClientConfig) -> str:
    return f"<at {';'.join(config.namesrv)}>"


@attrs.frozen(kw_only=True)
class SourceOptions:
    """The checked options of one read. They pickle."""

    client: ClientConfig = attrs.field(repr=_shown)
    choice: Choice
    start: Position
    end: Position = LATEST
    shape: Shape = attrs.Factory(Shape)
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay: float = 900.0
    """Seconds for which fewer than `min_offsets_per_trigger` may wait."""
    consumer_group: str | None = None
    """The group whose offsets are committed; None to commit nothing."""
    pull_batch_size: int = 1024
    pull_timeout: float = 30.0
    """Seconds for one pull."""
    tags: str | None = None
    sql: str | None = None
    push_down_filters: bool = False
    retries: int = 3
    """How often a request that failed is made again."""
    retry_interval: float = 1.0
    """Seconds between these."""

    @property
    def group(self) -> str:
        """The group that pulls name."""
        return self.consumer_group or GROUP


def batch_options(options: Mapping[str, str]) -> SourceOptions:
    """The options of a batch read, which reads from the earliest to the latest offsets unless told otherwise.

    Raises:
        ConfigError: an option cannot be used, or two contradict each other.
    """
    own, client = sorted_out(options)
    for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
        if name in own:
            raise ConfigError(f"{name} is for streams: leave it out of a batch read")
    start = start_of(own, EARLIEST)
    if start == LATEST:
        raise ConfigError("startingOffsets latest is for streams: a batch read would be empty")
    return _checked(own, client, start, end_of(own))


def stream_options(options: Mapping[str, str]) -> SourceOptions:
    """The options of a stream, which starts at the latest offsets unless told otherwise.

    Raises:
        ConfigError: an option cannot be used, or two contradict each other.
    """
    own, client = sorted_out(options)
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        if name in own:
            raise ConfigError(f"{name} is for batch reads: a stream has no end")
    if "pushDownFilters" in own:
        raise ConfigError("pushDownFilters is for batch reads: Spark pushes no filters into streams")
    return _checked(own, client, start_of(own, LATEST), LATEST)


def _checked(own: Mapping[str, str], client: Mapping[str, str], start: Position, end: Position) -> SourceOptions:
    group = own.get("consumerGroup")
    if group is not None:
        check_group(group)
    others: dict[str, Any] = {**_filters(own), **_numbers(own), **_flags(own)}
    return SourceOptions(
        client=client_config(own.get("namesrv"), client),
        choice=_choice(own),
        start=start,
        end=end,
        shape=shape_of(own),
        consumer_group=group,
        **others,
    )


def _choice(own: Mapping[str, str]) -> Choice:
    given = [name for name in ("subscribe", "subscribePattern", "assign") if name in own]
    if len(given) != 1:
        said = f"{' and '.join(given)} are given" if given else "none is given"
        raise ConfigError(f"exactly one of subscribe, subscribePattern and assign must say what to read, and {said}")
    text = own[given[0]]
    if given[0] == "assign":
        return Assigned(queues_of_json("assign", text))
    if given[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise ConfigError(f"subscribePattern {text!r:.100} is not a regular expression: {error}") from None
        return Pattern(text)
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ConfigError("subscribe names no topic: give names with commas between them")
    for name in names:
        check_topic(name)
    return Topics(names)


def check_filters(given: Mapping[str, str]) -> None:
    """Check the options tags and sql.

    Args:
        given: those of the two that are given.

    Raises:
        ConfigError: both are given, or the expression cannot be used.
    """
    if len(given) > 1:
        raise ConfigError("both tags and sql are given: filter by one of them")
    if "tags" in given:
        subscription.build("any", given["tags"])  # which says what is wrong with them
    elif not given.get("sql", "any").strip():
        raise ConfigError("sql is blank: give an expression, or leave it out")


def _filters(own: Mapping[str, str]) -> dict[str, str]:
    given = {name: own[name] for name in ("tags", "sql") if name in own}
    check_filters(given)
    return given


def _numbers(own: Mapping[str, str]) -> dict[str, int | float]:
    found: dict[str, int | float] = {}
    for name, (field, low, high, scale) in NUMBERS.items():
        if name in own:
            number = whole_number(name, own[name], low, high)
            found[field] = number if scale is None else number * scale
    if (delay := own.get("maxTriggerDelay")) is not None:
        if "minOffsetsPerTrigger" not in own:
            raise ConfigError("maxTriggerDelay needs minOffsetsPerTrigger, because it says how long fewer may wait")
        found["max_trigger_delay"] = _delay(delay)
    least, most = found.get("min_offsets_per_trigger"), found.get("max_offsets_per_trigger")
    if least is not None and most is not None and least > most:
        raise ConfigError(f"minOffsetsPerTrigger ({least}) is more than maxOffsetsPerTrigger ({most})")
    return found


def _flags(own: Mapping[str, str]) -> dict[str, bool]:
    fields = {"failOnDataLoss": "fail_on_data_loss", "pushDownFilters": "push_down_filters"}
    return {field: boolean(name, own[name]) for name, field in fields.items() if name in own}


def _delay(text: str) -> float:
    match = _DELAY.fullmatch(text.lower())
    if match is None:
        raise ConfigError(f"maxTriggerDelay must be a time such as 15m, 30s or 500ms, not {text!r:.100}")
    return int(match[1]) * _SECONDS[match[2]]
