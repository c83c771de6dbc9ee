"""A stream: what the driver is asked for each micro-batch. Not here: anything of Spark's.

Spark keeps the end of every micro-batch in the checkpoint, and not where the first one started: a query that died
within its first micro-batch would be asked for its start again, and "latest" would be another one by then. So the
first end says where it started, and so does every end for queues that were not there before.

PySpark before 4.2 does not say where a micro-batch starts when it asks for its end. At the first one of a run, it may
have a checkpoint that was not mentioned yet (availableNow, if spark.sql.streaming.triggerAvailableNowWrapper.enabled is
set), and this may be the only micro-batch of the run (availableNow and once). So the first one has no limit: it ends
where the queues end, which no checkpoint is beyond.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rocketpy.errors import RocketMQError
from rocketpy.logs import counted, get_logger
from rocketpy.spark.source.brokers import Brokers
from rocketpy.spark.source.clients import clients
from rocketpy.spark.source.offsets import as_json, limited, of_json, total
from rocketpy.spark.source.planning import first_offsets, ranges_between, shared_out
from rocketpy.spark.source.watching import Watching

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue
    from rocketpy.spark.source.offsets import OffsetRange, Offsets
    from rocketpy.spark.source.options import SourceOptions

__all__ = ["BEGINS", "StreamRead"]

BEGINS = "#begins"
"""Stands among the topics of an offset, which cannot have such a name: where queues start that were not read before."""

logger = get_logger(__name__)


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)


class StreamRead:
    """One streaming query. It pickles; only the process that plans changes it.

    Args:
        options: the checked options.
        clock: tells seconds.
        wait: waits for seconds.
    """

    def __init__(
        self,
        options: SourceOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] = _wait,
    ) -> None:
        self.options = options
        self._clock = clock
        self._watching = Watching(options, clock=clock, wait=wait)
        self._initial: dict[str, Any] | None = None
        self._last: dict[str, Any] | None = None
        """The end of the last micro-batch, for Spark before 4.2, which does not say it."""
        self._begins: Offsets = {}
        """Where queues start that are not part of any micro-batch yet."""
        self._committed: Offsets = {}
        self._ignored: Offsets = {}
        """Offsets that brokers have ignored, as the log says. They are committed again with each micro-batch."""
        self._last_batch: float | None = None

    def initial(self) -> dict[str, Any]:
        """Where a new query starts. Asked again, it says the same.

        Raises:
            ConfigError: the starts do not fit the queues that there are.
            DataLossError: messages are gone, and that is an error.
            RocketMQError: name servers or brokers do not answer.
        """
        if self._initial is None:
            options = self.options
            with clients().use(options.client) as client:
                brokers = Brokers(client.trio_client, options)
                found = first_offsets(brokers, self._watching.queues(brokers), options)
            self._initial = {**as_json(found), BEGINS: as_json(found)}
        return self._initial

    def latest(self, start: Mapping[str, Any] | None = None, *, most: int | None = None) -> dict[str, Any]:
        """Where the next micro-batch ends; its start if there is nothing to read yet.

        Args:
            start: where it starts; None for where the last one ended.
            most: how many offsets it may have; None for all there are. Without a start, the first micro-batch of a
                run has all.

        Raises:
            RocketMQError: name servers or brokers do not answer.
        """
        given = dict(start) if start is not None else self._last or self.initial()
        offsets = _offsets(given)
        with clients().use(self.options.client) as client:
            brokers = Brokers(client.trio_client, self.options)
            ends = self._watching.ends(brokers, {**self._begins, **offsets})
            new = self._new_queues(brokers, offsets, ends)
        begun = {**new, **offsets}
        until = {**offsets, **{queue: end for queue, end in ends.items() if queue in begun}}
        if until == offsets:
            return given
        if self._waits_for_more(begun, until):
            self._watching.rest()
            return given
        if most is not None:
            until = self._limited(begun, until, most, has_start=start is not None)
        self._last_batch = self._clock()
        taken = {queue: begin for queue, begin in new.items() if until[queue] != begin}
        until = {queue: end for queue, end in until.items() if queue in offsets or queue in taken}
        if until == offsets:
            return given
        begins = {**taken, **(offsets if given == self._initial else {})}
        self._last = {**as_json(until), **({BEGINS: as_json(begins)} if begins else {})}
        return self._last

    def _limited(self, start: Offsets, end: Offsets, most: int, *, has_start: bool) -> Offsets:
        """Where a micro-batch of `most` offsets ends; without a limit if it is the first one of an old PySpark."""
        if has_start or self._last_batch is not None:
            return limited(start, end, most)
        if total(start, end) > most:
            logger.warning(
                "the first micro-batch has no limit, although maxOffsetsPerTrigger is %d: "
                "PySpark before 4.2 does not say whether there will be others",
                most,
            )
        return end

    def _new_queues(self, brokers: Brokers, offsets: Offsets, ends: Offsets) -> Offsets:
        """Where queues start that have messages and were never read: with their oldest messages."""
        new = [queue for queue in ends if queue not in offsets]
        if unknown := [queue for queue in new if queue not in self._begins]:
            self._begins.update(brokers.beginnings(unknown))
        return {queue: self._begins[queue] for queue in new if ends[queue] > self._begins[queue]}

    def _waits_for_more(self, start: Offsets, end: Offsets) -> bool:
        """Whether there is too little for a micro-batch, and not for too long yet."""
        options = self.options
        if options.min_offsets_per_trigger is None or self._watching.has_target or self._last_batch is None:
            return False
        too_few = 0 < total(start, end) < options.min_offsets_per_trigger
        return too_few and self._clock() - self._last_batch < options.max_trigger_delay

    def plan(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[OffsetRange]:
        """The ranges that the tasks of a micro-batch read.

        Raises:
            DataLossError: messages are gone, and that is an error.
            RocketMQError: brokers do not answer.
        """
        self._last = dict(end)
        if start == end:  # of a micro-batch without messages, which notes may say to begin earlier
            return []
        begun = self._begun(start, of_json(end.get(BEGINS, {})))
        until = _offsets(end)
        changed = [queue for queue, offset in until.items() if begun.get(queue) != offset]
        with clients().use(self.options.client) as client:
            oldest = Brokers(client.trio_client, self.options).beginnings(changed)
        ranges = ranges_between(begun, until, oldest, fail_on_data_loss=self.options.fail_on_data_loss)
        return shared_out(ranges, self.options)

    def _begun(self, start: Mapping[str, Any], noted: Offsets) -> Offsets:
        """Where queues start in a micro-batch, by its start and what its end notes."""
        begun = _offsets(start)
        # An end that was made without a start may note another one than Spark has in its checkpoint, which counts then,
        # even where both agree on the queues of the checkpoint: new ones would start where they end.
        if start == self._initial or noted.keys().isdisjoint(begun):
            begun.update(noted)
        return begun

    def commit(self, end: Mapping[str, Any]) -> None:
        """Commit the end of a micro-batch that is done, if the user named a group. Failures are logged."""
        group = self.options.consumer_group
        if group is None:
            return
        changed = {queue: end for queue, end in _offsets(end).items() if self._committed.get(queue) != end}
        try:
            with clients().use(self.options.client) as client:
                done, failures, ignored = Brokers(client.trio_client, self.options).commit_some(group, changed)
        except RocketMQError as error:
            # It only shows how far the group is: the checkpoint is what counts, and the next commit says more.
            logger.warning("the offsets of %s are not committed: %s", group, error)
            return
        self._committed.update(done)
        for broker in sorted({queue.broker_name for queue in failures}):
            failed = [queue for queue in sorted(failures) if queue.broker_name == broker]
            logger.warning(
                "the offsets of %s in %s at %s are not committed: %s",
                group, counted(len(failed), "queue"), broker, failures[failed[0]],
            )  # fmt: skip

        self._tell_ignored({queue: changed[queue] for queue in ignored})

    def _tell_ignored(self, offsets: Offsets) -> None:
        """Log once what brokers have ignored: of a queue without new messages they may do so for ever."""
        new = [queue for queue, offset in offsets.items() if self._ignored.get(queue) != offset]
        self._ignored.update(offsets)
        if new:
            logger.warning(
                "the offsets of %s in %s are not committed: the group was reset, and nothing was pulled from %s since",
                self.options.consumer_group, counted(len(new), "queue"), new[0],
            )  # fmt: skip

    def prepare_available_now(self) -> None:
        """From here on, read to where queues end now, and no further.

        Raises:
            RocketMQError: name servers or brokers do not answer.
        """
        with clients().use(self.options.client) as client:
            self._watching.set_target(Brokers(client.trio_client, self.options))

    def report(self) -> dict[str, Any] | None:
        """Where queues ended when they were last asked, for the progress that Spark shows."""
        ends = self._watching.seen
        return dict(as_json(ends)) if ends else None


def _offsets(nested: Mapping[str, Any]) -> dict[MessageQueue, int]:
    """The offsets of an end, without its notes."""
    return of_json({topic: brokers for topic, brokers in nested.items() if topic != BEGINS})
