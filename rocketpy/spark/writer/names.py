"""The names of the options for writing, and advice about other names, such as those of Spark's Kafka sink. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rocketpy.spark.option_names import OptionNames

__all__ = ["OPTIONS", "sorted_out"]

OPTIONS: Final = (
    "namesrv",
    "topic",
    "columns",
    "valueFormat",
    "valueSchema",
    "badRows",
    "failedSends",
    "provenance",
    "batchSize",
    "jobId",
    "delivery",
    "dedupeKey",
    "markerTopic",
    "group",
)
"""Every option of the writer, as its documentation writes it."""

_OF_STREAMS: Final = ("checkpointLocation", "queryName")
"""Spark's own options of a streaming query, which reach the writer too."""

_READING: Final = "it is an option for reading; to write, give topic"
_ELSEWHERE: Final[Mapping[str, str]] = {
    "subscribe": _READING,
    "subscribepattern": _READING,
    "assign": _READING,
    "topics": "give one topic, or a column of topics",
    "includeheaders": "the column properties is sent if the DataFrame has it",
    "kafka.bootstrap.servers": "use namesrv, with the addresses of name servers",
    "nameserver": "use namesrv",
    "namesrvaddr": "use namesrv",
    "producergroup": "use group",
    "consumergroup": "it is an option for reading; the group of producers is group",
    "badvalues": "use badRows",
    "value": 'name the column with the option columns, such as {"value": "payload"}',
    "keys": 'name the column with the option columns, such as {"keys": "order_id"}',
    "tags": 'name the column with the option columns, such as {"tags": "kind"}',
    "checkpointlocation": "it is for streams",
    "queryname": "it is for streams",
    "path": "give the topic with the option topic, and nothing to save() or start()",
}
"""What stands for options of Spark's Kafka sink, and for names that are near but mean something else."""

_OWNER: Final = "RocketMQ writer"
_batch = OptionNames(_OWNER, OPTIONS, _ELSEWHERE)
_stream = OptionNames(_OWNER, (*OPTIONS, *_OF_STREAMS), _ELSEWHERE)


def sorted_out(options: Mapping[str, str], *, streamed: bool) -> tuple[dict[str, str], dict[str, str]]:
    """The options by the names of `OPTIONS`, and the producer's settings by folded names, without their prefix.

    Raises:
        ConfigError: a name is no option, or two names are the same one.
    """
    own, producer = (_stream if streamed else _batch).sorted_out(options)
    for name in _OF_STREAMS:
        own.pop(name, None)
    return own, producer
