"""What a sink is told, checked where it is made: on the driver, before anything runs. Pure.

It is all that travels to the executors. Its text shows no keys and no secrets, whatever prints it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from rocketpy.config import ProducerConfig
from rocketpy.config.advice import advice
from rocketpy.config.checks import MIB, flag, one_of, whole
from rocketpy.errors import ConfigError
from rocketpy.spark.rows import RowMapping

__all__ = ["SinkConfig", "producer_config"]

GROUP = "rocketpy-spark-sink"
"""The producer group of sinks that are not given one."""
_DEFAULTS: Mapping[str, Any] = {
    "group": GROUP,
    "send_timeout": 30.0,
    "retry_times_when_send_failed": 10,
    "back_pressure_for_async_send_num": 8192,
    "back_pressure_for_async_send_size": 32 * MIB,
}
"""Where a sink differs from other producers: many frames under way, little memory of a worker that has others, and
patience: nobody waits for an answer but the job, and a task that gives up begins from its first row. The pauses between
dials of one broker double, so ten more tries last for about half a minute."""


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
)
"""The settings of a sink that are not settings of its producers: the error for a misspelled one suggests them."""


def _check_names(settings: Mapping[str, Any]) -> None:
    """Refuse what is a setting of neither a sink nor a producer, in words that know both."""
    producers = {field.name for field in attrs.fields(ProducerConfig)}
    for name in sorted(settings.keys() - producers):
        hint = advice(name, ProducerConfig, _OWN)
        raise ConfigError(f"a sink has no setting {name}" + (f": {hint}" if hint else ""))


def producer_config(namesrv: Any, settings: Mapping[str, Any]) -> ProducerConfig:
    """The settings of the producers in the executors.

    Raises:
        ConfigError: one of them cannot be used, or not in several processes at once.
    """
    if settings.get("instance_name") is not None:
        raise ConfigError(
            "instance_name names one client, and every Python worker of Spark is one of its own: leave it out"
        )
    if "config" in settings:
        raise ConfigError("a sink takes the settings of a producer one by one, such as group='orders', not a config")
    _check_names(settings)
    given = settings if namesrv is None else {**settings, "namesrv": namesrv}
    config = ProducerConfig.of(None, **{**_DEFAULTS, **given})
    if not config.namesrv:
        raise ConfigError("the sink needs namesrv, such as 'a:9876;b:9876' (or NAMESRV_ADDR, here on the driver)")
    return config


def _shown(config: ProducerConfig) -> str:
    return f"<group {config.group} at {';'.join(config.namesrv)}>"


def _name(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if value is not None and (not isinstance(value, str) or not value.strip() or not value.isprintable()):
        raise ConfigError(f"{field.name} must be printable text that is not empty, not {value!r:.100}")


@attrs.frozen(kw_only=True)
class SinkConfig:
    """How rows become messages and are sent. It pickles."""

    mapping: RowMapping
    """How a row becomes a message."""
    producer: ProducerConfig = attrs.field(repr=_shown)
    """How the messages are sent."""
    batch_size: int = attrs.field(default=1024, validator=whole(1, 65_535))
    """Messages in a frame, at most."""
    bad_rows: str = attrs.field(default="fail", validator=one_of("fail", "skip"))
    """Whether a row that cannot become a message fails the task, or is passed over and counted."""
    failed_sends: str = attrs.field(default="fail", validator=one_of("fail", "count"))
    """Whether messages that cannot be sent fail the task, or are given up and counted."""
    provenance: bool = attrs.field(default=False, validator=flag)
    """Whether messages say which row of which job they are, for consumers that drop duplicates."""
    job_id: str | None = attrs.field(default=None, validator=_name)
    """Stands for the id of the application, or of the streaming query, in that."""
