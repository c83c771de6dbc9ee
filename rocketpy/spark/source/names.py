"""The names of the options for reading, and what to say about names of Spark's Kafka source. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rocketpy.spark.option_names import OptionNames

__all__ = ["OPTIONS", "sorted_out"]

OPTIONS: Final = (
    "namesrv",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "consumerGroup",
    "pullBatchSize",
    "pullTimeoutMs",
    "tags",
    "sql",
    "includeProperties",
    "columns",
    "pushDownFilters",
    "valueFormat",
    "valueSchema",
    "badValues",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
"""Every option of the source, as its documentation writes it."""

_ELSEWHERE: Final[Mapping[str, str]] = {
    "topic": "it is an option for writing; to read a topic, use subscribe",
    "topics": "use subscribe, with commas between topics",
    "includeheaders": "use includeProperties",
    "groupidprefix": "use consumerGroup",
    "kafka.bootstrap.servers": "use namesrv, with the addresses of name servers",
    "kafka.group.id": "use consumerGroup",
    "group": "use consumerGroup",
    "nameserver": "use namesrv",
    "namesrvaddr": "use namesrv",
    "kafkaconsumer.polltimeoutms": "use pullTimeoutMs",
    "endingoffsetsbytimestampstrategy": "a queue without a later message is always read to its end",
    "path": "give topics with subscribe, and nothing to load()",
}
"""What stands for options of Spark's Kafka source, and for names that are near but mean something else."""


_names = OptionNames("RocketMQ source", OPTIONS, _ELSEWHERE)


def sorted_out(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The options by the names of `OPTIONS`, and the client's settings by folded names, without their prefix.

    Raises:
        ConfigError: a name is no option, or two names are the same one.
    """
    return _names.sorted_out(options)
