"""StartPosition: the offset at which a newly assigned queue is consumed.

A committed offset always wins. For a queue without one, `consume_from_where` decides, with Java's exceptions: the retry
topic holds messages of this group only, so none may be skipped; and for a new group, a broker answers 0 if the queue
still has its first message, so that the group gets all of the queue whatever the setting says. Plays the part of
computePullFromWhereWithException in RebalancePushImpl.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from rocketpy.client.api import offset as offset_api
from rocketpy.errors import BrokerUnreachableError, ConfigError
from rocketpy.moments import checked_moment
from rocketpy.results import ConsumeFromWhere
from rocketpy.seams import wall_ms
from rocketpy.wire.names import is_retry_topic

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.consumer.offsets.offset_store import OffsetStore
    from rocketpy.message import MessageQueue

__all__ = ["StartPosition", "timestamp_ms"]

_FORMAT = "%Y%m%d%H%M%S"
_HALF_AN_HOUR = timedelta(minutes=30)


class StartSettings(Protocol):
    """The settings for queues without a committed offset."""

    @property
    def consume_from_where(self) -> ConsumeFromWhere:
        """Whether to begin at the first or the last offset, or at a time."""
        ...

    @property
    def consume_timestamp(self) -> str | int | datetime | None:
        """The time, as an aware datetime, in ms since 1970 or as local yyyyMMddHHmmss; None for half an hour ago."""
        ...


class StartPosition:
    """Finds start offsets for one consumer.

    Args:
        client: how to reach brokers.
        config: the settings for queues without a committed offset.
        offsets: has the committed offsets.
    """

    def __init__(self, client: MQClientInstance, config: StartSettings, offsets: OffsetStore) -> None:
        self._client = client
        self._offsets = offsets
        self._where = config.consume_from_where
        self._timestamp = timestamp_ms(config.consume_timestamp)

    async def find(self, queue: MessageQueue) -> int:
        """The offset to begin at in a queue.

        Raises:
            RocketMQError: it could not be determined. The queue must not be pulled then: no guess is safe.
        """
        stored = await self._offsets.read(queue)
        if stored is not None:
            return stored
        retry = is_retry_topic(queue.topic)
        if self._where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
            return 0
        if self._where is ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
            return await (self._end(queue) if retry else self._at_timestamp(queue))
        return 0 if retry else await self._end(queue)

    async def _end(self, queue: MessageQueue) -> int:
        return await offset_api.max_offset(
            self._client.pool, self._master(queue), queue, timeout=self._client.config.request_timeout
        )

    async def _at_timestamp(self, queue: MessageQueue) -> int:
        return await offset_api.search_offset(
            self._client.pool,
            self._master(queue),
            queue,
            self._timestamp,
            timeout=self._client.config.request_timeout,
        )

    def _master(self, queue: MessageQueue) -> str:
        address = self._client.routes.broker_address(self._client.routes.broker_name(queue))
        if address is None:
            raise BrokerUnreachableError(
                f"the broker {queue.broker_name} of {queue} has no master now, and only the master knows its offsets: "
                "start it",
                topic=queue.topic,
            )
        return address


def timestamp_ms(value: str | int | datetime | None) -> int:
    """Convert an aware datetime, ms since 1970 or a local yyyyMMddHHmmss to ms since 1970; None means half an hour ago.

    Raises:
        ConfigError: it is no such time.
    """
    if value is None:
        return wall_ms() - int(_HALF_AN_HOUR.total_seconds() * 1000)
    if not isinstance(value, str):
        return checked_moment("consume_timestamp", value)
    try:
        moment = datetime.strptime(value, _FORMAT).astimezone()
    except (ValueError, OverflowError) as exc:  # the calendar's first and last days do not exist in some time zones
        raise ConfigError(f"consume_timestamp must look like 20240131235959 (yyyyMMddHHmmss), not {value!r}") from exc
    return int(moment.timestamp() * 1000)
