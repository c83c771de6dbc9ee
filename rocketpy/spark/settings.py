"""The settings of a sink. The driver checks them before anything runs. Pure.

Only the settings are sent to the executors. Their repr shows no keys and no secrets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from rocketpy.config import ClientConfig, ProducerConfig
from rocketpy.config.advice import advice
from rocketpy.config.checks import MIB, flag, one_of, topic_name, whole
from rocketpy.errors import ConfigError
from rocketpy.spark.rows import RowMapping

__all__ = [
    "AT_LEAST_ONCE",
    "COMMIT_MARKER",
    "DELIVERIES",
    "EFFECTIVELY_ONCE",
    "MARKER_TOPIC",
    "SinkConfig",
    "check_names",
    "producer_config",
]

AT_LEAST_ONCE: Final = "at-least-once"
COMMIT_MARKER: Final = "commit-marker"
EFFECTIVELY_ONCE: Final = "effectively-once"
DELIVERIES: Final = (AT_LEAST_ONCE, COMMIT_MARKER, EFFECTIVELY_ONCE)
"""The values of the setting `delivery`, each guaranteeing what the one before does."""
MARKER_TOPIC: Final = "rocketpy-spark-markers"
"""The default topic of the markers."""

_BATCH_SIZE: Final = 1024
_LONGEST_NAME: Final = 255
GROUP = "rocketpy-spark-sink"
"""The default producer group of sinks."""
_DEFAULTS: Mapping[str, Any] = {
    "group": GROUP,
    "send_timeout": 30.0,
    "retry_times_when_send_failed": 10,
    "back_pressure_for_async_send_num": 8192,
    "back_pressure_for_async_send_size": 32 * MIB,
}
"""Defaults that differ from those of other producers. More messages are in flight, with less memory, because a worker
runs other tasks too. Timeouts are longer and there are more retries, because only the job waits for an answer, and a
task that fails starts again from its first row. Pauses between dials of a broker double, so ten more attempts take
about half a minute."""


_OWN = (
    "topic",
    "columns",
    "to_message",
    "value_format",
    "bad_rows",
    "failed_sends",
    "provenance",
    "batch_size",
    "job_id",
    "delivery",
    "dedupe_key",
    "marker_topic",
)
"""The settings of a sink that are not settings of its producers: the error for a misspelled one suggests them."""


def check_names(what: str, settings: Mapping[str, Any], kind: type[ClientConfig], own: Iterable[str]) -> None:
    """Refuse names that are not settings of a client, and a name for the client.

    Args:
        what: what has the settings, for errors.
        settings: those that are for the client.
        kind: the class of the settings.
        own: the names of other settings, which an error may suggest too.

    Raises:
        ConfigError: there is such a name.
    """
    if settings.get("instance_name") is not None:
        raise ConfigError(
            "instance_name must be unique for each client, and every Python worker of Spark is a client: leave it out"
        )
    for name in sorted(settings.keys() - {field.name for field in attrs.fields(kind)}):
        hint = advice(name, kind, own)
        raise ConfigError(f"{what} has no setting {name}" + (f": {hint}" if hint else ""))


def producer_config(namesrv: Any, settings: Mapping[str, Any]) -> ProducerConfig:
    """The settings of the producers in the executors.

    Raises:
        ConfigError: a setting cannot be used, or cannot be used by several processes at once.
    """
    if "config" in settings:
        raise ConfigError("a sink takes the settings of a producer one by one, such as group='orders', not a config")
    check_names("a sink", settings, ProducerConfig, _OWN)
    given = settings if namesrv is None else {**settings, "namesrv": namesrv}
    config = ProducerConfig.of(None, **{**_DEFAULTS, **given})
    if not config.namesrv:
        raise ConfigError("the sink needs namesrv, such as 'a:9876;b:9876' (or NAMESRV_ADDR, set on the driver)")
    return config


def _shown(config: ProducerConfig) -> str:
    return f"<group {config.group} at {';'.join(config.namesrv)}>"


def _name(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if value is not None and (not isinstance(value, str) or not value.strip() or not value.isprintable()):
        raise ConfigError(f"{field.name} must be printable text that is not empty, not {value!r:.100}")
    if value is not None and len(value) > _LONGEST_NAME:
        raise ConfigError(f"{field.name} has {len(value)} characters, and every message carries it: use at most 255")


def _batch_size(value: int | None) -> int:
    return _BATCH_SIZE if value is None else value


def _column(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, str | int | None) or value == "":
        raise ConfigError(f"{field.name} is {value!r:.100}: give the name of a column, or its position in a tuple")


@attrs.frozen(kw_only=True)
class SinkConfig:
    """The settings of a sink. They can be pickled."""

    mapping: RowMapping
    """How a row becomes a message."""
    producer: ProducerConfig = attrs.field(repr=_shown)
    """The settings of the producers."""
    batch_size: int = attrs.field(default=_BATCH_SIZE, converter=_batch_size, validator=whole(1, 65_535))
    """The largest number of messages in a frame."""
    bad_rows: str = attrs.field(default="fail", validator=one_of("fail", "skip"))
    """Whether a row that cannot become a message fails the task ("fail"), or is skipped and counted ("skip")."""
    failed_sends: str = attrs.field(default="fail", validator=one_of("fail", "count"))
    """Whether a message that cannot be sent fails the task ("fail"), or is only counted ("count")."""
    provenance: bool = attrs.field(default=False, validator=flag)
    """Whether messages have properties that identify the job and the row, so that consumers can drop duplicates."""
    job_id: str | None = attrs.field(default=None, validator=_name)
    """Used in the provenance in place of the id of the application or streaming query."""
    delivery: str = attrs.field(default=AT_LEAST_ONCE, validator=one_of(*DELIVERIES))
    """The guarantee. It is "at-least-once"; "commit-marker", so that a micro-batch that has ended is not written again;
    or "effectively-once", so that rows that are stored are not sent again."""
    dedupe_key: str | int | None = attrs.field(default=None, validator=_column)
    """The column, or its position, that identifies a row within its micro-batch or job; None if the numbers of the
    partition and the row identify it."""
    marker_topic: str = attrs.field(default=MARKER_TOPIC, validator=topic_name)
    """The topic of the markers, which say which micro-batches have begun and ended."""

    def __attrs_post_init__(self) -> None:
        """Refuse settings that contradict each other.

        Raises:
            ConfigError: two of them do.
        """
        if self.dedupe_key is not None and not self.marks:
            raise ConfigError(
                "dedupe_key needs unique ids that stay the same when rows are sent again: set provenance, or "
                f'delivery="{EFFECTIVELY_ONCE}"'
            )
        if self.has_markers and self.failed_sends == "count":
            raise ConfigError(
                f'failed_sends="count" gives rows up, and delivery="{self.delivery}" would never send them again: '
                "leave one of them out"
            )

    @property
    def has_markers(self) -> bool:
        """Whether markers say which micro-batches have ended."""
        return self.delivery != AT_LEAST_ONCE

    @property
    def marks(self) -> bool:
        """Whether messages have the provenance, and a unique id that is the same when they are sent again."""
        return self.provenance or self.delivery == EFFECTIVELY_ONCE
