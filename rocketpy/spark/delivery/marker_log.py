"""Reads and writes the topic of the markers: one log for each process, cluster and topic, shared by all sinks there.

A log reads every marker once, and from then on only what is new. The driver sends its state to the tasks, so that
workers do not have to read from the beginning.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

import attrs

from rocketpy.errors import BrokerUnreachableError, RocketMQError
from rocketpy.logs import get_logger
from rocketpy.message import MessageQueue
from rocketpy.spark.delivery.away import wait_for_all
from rocketpy.spark.delivery.markers import Markers, begin_message, commit_message
from rocketpy.spark.delivery.reading import options_of, read
from rocketpy.spark.producers import producers
from rocketpy.spark.source.brokers import Brokers
from rocketpy.spark.source.clients import clients
from rocketpy.spark.source.offsets import OffsetRange

if TYPE_CHECKING:
    from rocketpy.config import ProducerConfig
    from rocketpy.message import Message
    from rocketpy.results import SendResult
    from rocketpy.spark.delivery.markers import BatchId
    from rocketpy.spark.settings import SinkConfig
    from rocketpy.sync import MQClientInstance
    from rocketpy.wire.record_columns import RecordColumns

__all__ = ["LogState", "MarkerLog", "marker_log"]

_VISIBLE_WITHIN: Final = 30.0
"""Seconds that a broker may take until a marker that it has acknowledged can be read. It takes milliseconds."""
_PAUSE: Final = 0.005
"""Seconds between two looks for it."""
_OFFSET, _PLACE, _TIME = 3, 4, 7
"""The places of the offset in the queue, of that in the commit log, and of the store time in a `ColumnHead`."""


logger = get_logger(__name__)


@attrs.frozen
class LogState:
    """How far a log has been read, and what it says up to there. It pickles."""

    positions: Mapping[MessageQueue, int]
    """For each queue, the offset of the next marker to read."""
    markers: Markers
    """What the markers before these say."""
    origin: str = ""
    """Identifies the log of the driver from which this comes. A log that begins again has another one."""


class _Stored(NamedTuple):
    """What tells a message from one that another topic of this name had at the same offset."""

    offset: int
    """Position in the queue."""
    place: int
    """Position in the commit log of its broker."""
    time: int
    """When the broker stored it, ms since 1970."""


class MarkerLog:
    """The markers in a topic. Any thread may use it.

    Args:
        config: the settings of the producers that write markers; readers use those of them that clients have.
        topic: the topic of the markers.
    """

    def __init__(self, config: ProducerConfig, topic: str) -> None:
        self._config = config
        self._topic = topic
        self._options = options_of(config, topic)
        self._markers = Markers()
        self._positions: dict[MessageQueue, int] = {}
        self._last: dict[MessageQueue, _Stored] = {}
        """The last message that this log has read of each queue."""
        self._origin = uuid4().hex
        self._brokers: frozenset[str] = frozenset()
        """Those that had queues when the log was read last."""
        self._lock = threading.Lock()

    def state(self) -> LogState:
        """What has been read so far."""
        with self._lock:
            return LogState(self._positions.copy(), self._markers.copy(), self._origin)

    def adopt(self, state: LogState) -> None:
        """Begin with what another process has read, unless this log has gone on from there itself.

        What it has from another origin does not count: it may be of a topic that has been made again since.
        """
        with self._lock:
            if not self._positions or (state.positions and state.origin != self._origin):
                self._positions, self._markers = dict(state.positions), state.markers.copy()
                self._origin = state.origin
                self._last.clear()

    def _begin_again(self) -> None:
        """Forget all that was read. With the lock held."""
        self._markers, self._origin = Markers(), uuid4().hex
        self._positions.clear()
        self._last.clear()

    # --- the topic ----------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Create the topic if it does not exist: one queue on each broker, or what it had before. Only on the driver.

        Tasks then take a topic that cannot be found for a failure, and not for a topic without markers. The name
        servers are asked each time, since the topic may have been deleted, or other servers may be there instead of
        those that had it.

        Raises:
            RocketMQError: the topic could not be created.
        """
        try:
            with clients().use(self._options.client) as client:
                if Brokers(client.trio_client, self._options).know(self._topic):
                    return
        except RocketMQError as error:
            logger.warning("looking for the topic %s of the markers failed: %s", self._topic, error)
            return
        with self._lock:
            before = Counter(queue.broker_name for queue in self._positions)
        if before:
            logger.warning("the topic %s of the markers is gone, and is created again", self._topic)
        try:
            with producers().use(self._config) as producer, self._explained("creating"):
                producer.create_topic(self._topic, queues=max(before.values(), default=1))
        except BrokerUnreachableError as error:  # name servers that have just started know no brokers and no topics
            logger.warning("the topic %s of the markers cannot be created now: %s", self._topic, error)

    # --- reading ------------------------------------------------------------------------------------------

    def read_on(self, *, check: bool = False) -> LogState:
        """Read the markers that are new. Returns what all of them say.

        Args:
            check: whether to see first that the last message of each queue is still there, and to begin again if
                another one is in its place, or none: then the topic has been made again. Drivers do.

        Raises:
            RocketMQError: name servers or brokers do not answer, after retries; or the topic does not exist.
        """
        with self._lock, clients().use(self._options.client) as client, self._explained("reading"):
            brokers = Brokers(client.trio_client, self._options)
            bounds = brokers.bounds(brokers.queues())
            self._brokers = frozenset(queue.broker_name for queue in bounds)
            if check and not all(self._is_as_before(client, queue, *each) for queue, each in bounds.items()):
                logger.warning(
                    "the topic %s of the markers was made again, and is read from the beginning", self._topic
                )
                self._begin_again()
            for queue, (oldest, end) in bounds.items():
                before = self._positions.get(queue, oldest)
                start = oldest if before > end else max(before, oldest)  # the topic may have been made again
                read(client, self._options, [OffsetRange(queue, start, end)], partial(self._note, queue))
                self._positions[queue] = end
        return self.state()

    def _note(self, queue: MessageQueue, columns: RecordColumns) -> None:
        for head, properties in zip(columns.heads, columns.properties, strict=True):
            self._markers.note(properties, head[_TIME])
            self._last[queue] = _stored(head)

    def _is_as_before(self, client: MQClientInstance, queue: MessageQueue, oldest: int, end: int) -> bool:
        """Whether the last message that was read of a queue is still there, as far as that can be seen."""
        last = self._last.get(queue)
        if last is None or last.offset < oldest:  # it was too old to be kept
            return True
        if last.offset >= end:
            return False
        found: list[_Stored] = []
        one = OffsetRange(queue, last.offset, last.offset + 1)
        read(client, self._options, [one], lambda columns: found.extend(map(_stored, columns.heads)))
        return not found or found[-1] == last

    def read_all(self, before: LogState) -> LogState:
        """Read on, when all brokers are there that may have messages of an earlier attempt. Returns what markers say.

        Args:
            before: what was read of the log before the messages were sent.

        Raises:
            RocketMQError: a broker that had markers is not known to the name servers, for half a minute; or the log
                cannot be read.
        """
        wait_for_all(self._topic, partial(self._away, before))
        return self.state()

    def _away(self, before: LogState) -> frozenset[str]:
        """Read on. Returns the brokers that had queues before and do not have them now."""
        state = self.read_on()
        with self._lock:
            return frozenset(queue.broker_name for queue in (*before.positions, *state.positions)) - self._brokers

    # --- writing ----------------------------------------------------------------------------------------

    def begin(self, batch: BatchId, run: str, partition: int) -> tuple[str, Markers]:
        """Store the marker of a task that begins, and read on until it can be read.

        Then all that its broker had stored before can be read too: markers of other attempts of the task, and messages.

        Args:
            batch: the micro-batch.
            run: the attempt of the micro-batch.
            partition: the partition.

        Returns:
            What identifies the marker, and what all markers say.

        Raises:
            RocketMQError: the marker could not be stored, or cannot be read.
        """
        marker = uuid4().hex
        sent = self._send(begin_message(self._topic, batch, run, partition, marker))
        until = time.monotonic() + _VISIBLE_WITHIN
        while (state := self.read_on()).positions.get(sent.queue, 0) <= sent.queue_offset:
            if time.monotonic() > until:
                raise RocketMQError(
                    f"a marker was stored at offset {sent.queue_offset} of {sent.queue} and cannot be read: give the "
                    f"topic {self._topic} as many read queues as write queues, and permission to read it"
                )
            threading.Event().wait(_PAUSE)
        return marker, state.markers

    def commit(self, batch: BatchId, run: str, rows: Mapping[int, int] | None = None) -> None:
        """Store the marker of a micro-batch that has been written.

        Args:
            batch: the micro-batch.
            run: the attempt of the micro-batch.
            rows: the number of messages of each partition; None if it is not known.

        Raises:
            RocketMQError: it could not be stored.
        """
        self._send(commit_message(self._topic, batch, run, rows))

    def _send(self, message: Message) -> SendResult:
        with producers().use(self._config) as producer, self._explained("writing"):
            return producer.send(message)

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        try:
            yield
        except RocketMQError as error:
            error.add_note(f"while {doing} the topic {self._topic}, which has the markers of sinks")
            raise


def _stored(head: tuple[Any, ...]) -> _Stored:
    return _Stored(head[_OFFSET], head[_PLACE], head[_TIME])


# --- those of this process -----------------------------------------------------------------------------

_logs: dict[tuple[ProducerConfig, str], MarkerLog] = {}


def marker_log(config: SinkConfig) -> MarkerLog:
    """The log that sinks with these settings share in this process."""
    key = config.producer, config.marker_topic
    return _logs.get(key) or _logs.setdefault(key, MarkerLog(*key))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_logs.clear)  # a thread that does not exist in the child may hold their locks
