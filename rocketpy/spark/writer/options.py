"""Options become the settings of a sink, checked on the driver, before anything runs. Pure.

The settings travel to the executors. Their text shows no secrets, whatever prints it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rocketpy.config import ProducerConfig
from rocketpy.errors import ConfigError
from rocketpy.serialization import AvroSerializer
from rocketpy.spark.option_values import boolean, client_settings, json_value, one_word, redacted, whole_number
from rocketpy.spark.rows import RowMapping
from rocketpy.spark.settings import AT_LEAST_ONCE, DELIVERIES, MARKER_TOPIC, SinkConfig, producer_config

__all__ = ["columns_of", "sink_config"]

_FUNCTION: Final = "a function cannot be an option: use rocketpy.spark.sink"
_ELSEWHERE: Final[Mapping[str, str]] = {
    "group": "use the option group",
    "producergroup": "use the option group",
    "serializer": "use the option valueFormat",
    "checkforbidden": _FUNCTION,
    "beforesend": _FUNCTION,
    "aftersend": _FUNCTION,
    "latencytable": "a table cannot be an option: use rocketpy.spark.sink",
}
_EXAMPLE: Final = '{"value": "payload", "keys": "order_id"}'


def columns_of(own: Mapping[str, str]) -> dict[str, str | None]:
    """The columns that the option columns names for parts of a message; None if no column has the part.

    Raises:
        ConfigError: it is no JSON that names columns.
    """
    text = own.get("columns")
    if text is None:
        return {}
    found = json_value("columns", text, _EXAMPLE)
    if not isinstance(found, dict):
        raise ConfigError(f"columns must be JSON such as {_EXAMPLE}, not {text!r:.100}")
    for part, column in found.items():
        if not isinstance(column, str | None):
            raise ConfigError(f"columns has {column!r:.100} as the column of the {part}: give its name, or null")
    return found


def sink_config(own: Mapping[str, str], producer: Mapping[str, str], value_format: str) -> SinkConfig:
    """The settings of the sink that writes the rows.

    Args:
        own: the options, by the names of `rocketpy.spark.writer.names`.
        producer: settings of the producers, by folded names.
        value_format: how values are encoded if the options do not say it.

    Raises:
        ConfigError: an option cannot be used.
    """
    given: dict[str, Any] = {}
    if "batchSize" in own:
        given["batch_size"] = whole_number("batchSize", own["batchSize"], 1, 65_535)
    mapping = RowMapping(
        topic=own.get("topic"),
        columns=columns_of(own),
        value_format=_value_format(own, value_format),
    )
    return SinkConfig(
        mapping=mapping,
        producer=_producer_config(own, producer),
        bad_rows=one_word("badRows", own.get("badRows", "fail"), "fail", "skip"),
        failed_sends=one_word("failedSends", own.get("failedSends", "fail"), "fail", "count"),
        provenance=boolean("provenance", own.get("provenance", "true")),
        job_id=own.get("jobId"),
        delivery=one_word("delivery", own.get("delivery", AT_LEAST_ONCE), *DELIVERIES),
        dedupe_key=own.get("dedupeKey"),
        marker_topic=own.get("markerTopic", MARKER_TOPIC),
        **given,
    )


def _value_format(own: Mapping[str, str], default: str) -> str | AvroSerializer:
    name = one_word("valueFormat", own.get("valueFormat", default), "binary", "string", "json", "msgpack", "avro")
    schema = own.get("valueSchema")
    if name != "avro":
        if schema is not None:
            raise ConfigError("valueSchema is for valueFormat avro: other formats take the types of the columns")
        return name
    if schema is None:
        raise ConfigError("valueFormat avro needs valueSchema, the schema of the values as JSON")
    try:
        return AvroSerializer(schema)
    except ConfigError as error:
        raise ConfigError(f"valueSchema cannot be used: {error}") from error


def _producer_config(own: Mapping[str, str], settings: Mapping[str, str]) -> ProducerConfig:
    fields = client_settings(ProducerConfig, settings, _ELSEWHERE)
    if "group" in own:
        fields["group"] = own["group"]
    try:
        return producer_config(own.get("namesrv"), fields)
    except ConfigError as error:
        raise ConfigError(redacted(str(error), settings)) from None
