"""Reads the messages of a topic from some offsets to others, for blocking code, as the source reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import attrs

from rocketpy.config import ClientConfig
from rocketpy.spark.source.options import SourceOptions, Topics
from rocketpy.spark.source.positions import EARLIEST
from rocketpy.spark.source.pulling import pulled
from rocketpy.wire.record_columns import RecordColumns, read_columns

if TYPE_CHECKING:
    from rocketpy.config import ProducerConfig
    from rocketpy.spark.source.offsets import OffsetRange
    from rocketpy.sync import MQClientInstance

__all__ = ["options_of", "read"]

_RETRIES: Final = 10
"""As often as a sink retries its sends: a task that fails here starts again from its first row."""
_MOST_BYTES: Final = 16 * 1024 * 1024
"""Bytes of bodies that are unpacked at a time; one body more may come on top."""


def options_of(config: ProducerConfig, topic: str) -> SourceOptions:
    """How to read a topic with the settings of a producer."""
    fields = {field.name: getattr(config, field.name) for field in attrs.fields(ClientConfig) if field.init}
    return SourceOptions(
        client=ClientConfig(**fields),
        choice=Topics((topic,)),
        start=EARLIEST,
        fail_on_data_loss=False,
        retries=_RETRIES,
    )


def read(
    client: MQClientInstance,
    options: SourceOptions,
    ranges: Iterable[OffsetRange],
    take: Callable[[RecordColumns], None],
) -> None:
    """Read ranges of queues, one after the other.

    Args:
        client: an open client.
        options: how to read.
        ranges: what to read.
        take: called with the messages of each answer, several times if they unpack to much.

    Raises:
        RocketMQError: a broker cannot be reached, does not answer, or refuses, after retries; or a message is damaged.
    """
    for each in ranges:
        if each.size <= 0:
            continue
        with pulled(client.trio_client, each, options) as answers:
            for body in answers:
                position = 0
                while position < len(body):
                    columns = RecordColumns()
                    position, _ = read_columns(
                        body, columns, each.start, each.until, position=position, most=_MOST_BYTES
                    )
                    take(columns)
