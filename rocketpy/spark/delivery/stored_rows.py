"""Finds the messages of a partition that brokers have stored already, so that only the others are sent.

The topics are read from the moment on at which an earlier attempt began. If rows are identified by their numbers, the
bodies are compared too: a row with the number of a stored row and another body shows that Spark has not computed the
same rows again. Then to leave it out would lose it, so that is an error.

An earlier attempt may still be running: if Spark runs a stage again, it does not end the tasks of the stage that are
under way. So whatever was found, the search goes on where it ended, until it finds nothing more from this partition.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final
from zlib import crc32

from rocketpy.errors import RocketMQError, RowError, TopicNotFoundError
from rocketpy.logs import get_logger
from rocketpy.message import PropertyName
from rocketpy.spark.delivery.away import wait_for_all
from rocketpy.spark.delivery.reading import options_of, read
from rocketpy.spark.provenance import PARTITION
from rocketpy.spark.source.brokers import Brokers
from rocketpy.spark.source.clients import clients
from rocketpy.spark.source.offsets import OffsetRange
from rocketpy.wire.properties import find_property

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy.message import Message, MessageQueue
    from rocketpy.spark.settings import SinkConfig
    from rocketpy.spark.source.options import SourceOptions
    from rocketpy.spark.task import Task
    from rocketpy.sync import MQClientInstance
    from rocketpy.wire.record_columns import RecordColumns

__all__ = ["CLOCKS_DIFFER", "StoredRows", "brokers_of"]

CLOCKS_DIFFER: Final = 10_000
"""Milliseconds by which the clocks of two brokers may differ: the search begins that much earlier."""
_QUIET_WITHIN: Final = 600.0
"""Seconds for which an earlier attempt may go on sending before the task fails."""
_UNIQUE_KEY: Final = PropertyName.UNIQUE_KEY
_UNIQUE_NAME: Final = _UNIQUE_KEY.encode()
_PARTITION_NAME: Final = PARTITION.encode()
_DELAYS: Final = frozenset(
    {PropertyName.DELAY, PropertyName.TIMER_DELAY_MS, PropertyName.TIMER_DELAY_SEC, PropertyName.TIMER_DELIVER_MS}
)

logger = get_logger(__name__)


def brokers_of(config: SinkConfig) -> frozenset[str]:
    """The brokers that may store rows, as far as that is known before there are rows: those of the sink's own topic.

    Raises:
        RocketMQError: the name servers do not answer, after retries.
    """
    topic = config.mapping.topic
    if topic is None:
        return frozenset()
    options = options_of(config.producer, topic)
    with clients().use(options.client) as client:
        return Brokers(client.trio_client, options).names(topic)


class StoredRows:
    """The stored messages of one partition. Topics are read when the first message for them comes.

    Args:
        config: the settings of the sink.
        task: the task, whose provenance identifies its messages.
        since: when the first attempt began, ms since 1970; None if this is the first one, so that nothing is stored.
        grace: seconds between two looks at a topic, within which an attempt that is still running sends something.
        brokers: those that may have rows of the sink's own topic.
    """

    def __init__(
        self,
        config: SinkConfig,
        task: Task,
        since: int | None,
        *,
        grace: float = 0.0,
        brokers: frozenset[str] = frozenset(),
    ) -> None:
        self._config = config
        self._task = task
        self._since = since
        self._grace = grace
        self._brokers = brokers
        self._found: dict[str, dict[str, int]] = {}
        """For each topic, a checksum of the body of each stored message, by unique id."""
        facts = dict(task.provenance().properties)
        self._partition = facts[PARTITION].encode()
        if config.dedupe_key is not None:  # another partition may have sent the row
            del facts[PARTITION]
        self._wanted = [(name.encode(), fact.encode()) for name, fact in facts.items()]

    @property
    def is_searched(self) -> bool:
        """Whether an earlier attempt may have stored messages."""
        return self._since is not None

    def has(self, message: Message, row: int) -> bool:
        """Whether the message of a row is stored.

        Args:
            message: the message, with its unique id.
            row: the number of the row.

        Raises:
            RowError: it is delayed, or another message with its unique id is stored.
            RocketMQError: a topic cannot be read.
        """
        properties = message.wire_properties
        if not _DELAYS.isdisjoint(properties):
            raise self._error(
                row, message, "its message is delayed, and cannot be found before it is due: use another delivery"
            )
        if self._since is None:
            return False
        found = self._found.get(message.topic)
        if found is None:
            found = self._found[message.topic] = self._stored_in(message.topic, self._since)
        checksum = found.get(properties[_UNIQUE_KEY])
        if checksum is None:
            return False
        if self._config.dedupe_key is None and message.body and crc32(message.body) != checksum:
            raise self._error(
                row,
                message,
                "an earlier attempt has stored another value for this row, so the query does not compute the same rows "
                "in the same order again: name a column that identifies rows (dedupe_key), or use another delivery",
            )
        return True

    def _error(self, row: int, message: Message, reason: str) -> RowError:
        return RowError(reason, row=row, partition=self._task.partition, keys=message.keys)

    # --- looking for them -------------------------------------------------------------------------------

    def _stored_in(self, topic: str, since: int) -> dict[str, int]:
        options = options_of(self._config.producer, topic)
        found: dict[str, int] = {}
        with clients().use(options.client) as client:
            search = _Search(client, options, max(0, since - CLOCKS_DIFFER))
            if topic == self._config.mapping.topic:
                wait_for_all(topic, lambda: self._brokers - search.brokers.names(topic))
            until = time.monotonic() + _QUIET_WITHIN
            while search.look_on(lambda columns: self._take(columns, found)):
                if time.monotonic() >= until:
                    raise RocketMQError(
                        f"an earlier attempt of partition {self._task.partition} goes on sending to the topic {topic}, "
                        "so rows would be stored twice: end the executor that runs it, and start it again"
                    )
                threading.Event().wait(self._grace)
        logger.warning(
            "%d messages of partition %d are in the topic %s already, and are not sent again",
            len(found), self._task.partition, topic,
        )  # fmt: skip
        return found

    def _take(self, columns: RecordColumns, found: dict[str, int]) -> bool:
        """Note the messages that are wanted. Returns whether an attempt of this partition has sent any of them: with
        keys, those of other partitions are wanted too, and their tasks may be running as they should.
        """
        first_name, first_value = self._wanted[0]
        mark = b"%b\x01%b\x02" % (first_name, first_value)
        is_ours = False
        for properties, body in zip(columns.properties, columns.bodies, strict=True):
            if mark not in properties and not properties.endswith(mark[:-1]):
                continue  # most messages of others, in one step
            if all(find_property(properties, name) == value for name, value in self._wanted):
                unique_id = find_property(properties, _UNIQUE_NAME)
                if unique_id is not None:
                    found[unique_id.decode("ascii", "replace")] = crc32(body)
                    is_ours = is_ours or find_property(properties, _PARTITION_NAME) == self._partition
        return is_ours


class _Search:
    """Reads a topic again and again, each time what has been stored since.

    Args:
        client: an open client.
        options: how to read the topic.
        since: where to begin in each queue, ms since 1970.

    Attributes:
        brokers: asks about the topic.
    """

    def __init__(self, client: MQClientInstance, options: SourceOptions, since: int) -> None:
        self._client = client
        self._options = options
        self._since = since
        self.brokers = Brokers(client.trio_client, options)
        self._positions: dict[MessageQueue, int] = {}

    def look_on(self, take: Callable[[RecordColumns], bool]) -> bool:
        """Take the messages that are new; there are none if there is no topic. Returns whether `take` did so once."""
        brokers = self.brokers
        try:
            ends = brokers.ends(brokers.queues())
        except TopicNotFoundError:
            return False
        starts = self._positions | brokers.at_times(dict.fromkeys(ends.keys() - self._positions, self._since))
        self._positions.update(ends)
        taken: list[bool] = []
        ranges = [OffsetRange(queue, starts[queue], end) for queue, end in ends.items()]
        read(self._client, self._options, ranges, lambda columns: taken.append(take(columns)))
        return any(taken)
