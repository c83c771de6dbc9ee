"""Pulls the records of one range ahead of the code that decodes them.

The next pull is made before the last answer is decoded, so the broker and this process work at the same time. Where
there is a data connection to the broker, the thread that decodes makes the pulls itself. All others are made in the
portal: the first ones, and those that follow a failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

from rocketpy.client.api import offset as offset_api
from rocketpy.client.api.group import check_filter
from rocketpy.client.api.pull import PullForm
from rocketpy.client.homes import home_of
from rocketpy.consumer.offsets.queue_offsets import QueueOffsets
from rocketpy.errors import BrokerUnreachableError, RocketMQError
from rocketpy.spark.source.direct import PullsAhead
from rocketpy.spark.source.progress import Progress
from rocketpy.spark.source.retrying import retried
from rocketpy.sync.links import attach_threads
from rocketpy.wire.bodies import subscription
from rocketpy.wire.bodies.route import MASTER_ID
from rocketpy.wire.headers.pull import PullMessageRequestHeader
from rocketpy.wire.record import QUEUE_OFFSET_AT
from rocketpy.wire.sysflag import PullSysFlag

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.results import PulledRecords
    from rocketpy.spark.source.offsets import OffsetRange
    from rocketpy.spark.source.options import SourceOptions
    from rocketpy.wire.bodies.subscription import SubscriptionData

__all__ = ["Pulls", "pulled", "subscription_of"]

_PULL = PullSysFlag.build(subscription=True)
_QUEUE_OFFSET = slice(QUEUE_OFFSET_AT, QUEUE_OFFSET_AT + 8)
"""Where the offset stands in a message."""
_IDLE_PAUSE = 0.05
"""Seconds between answers that bring nothing."""


def subscription_of(topic: str, options: SourceOptions) -> SubscriptionData:
    """What pulls of a topic ask for.

    Raises:
        ConfigError: the expression cannot be used.
    """
    if options.sql is not None:
        return subscription.build(topic, options.sql, expression_type=subscription.SQL92)
    return subscription.build(topic, options.tags)


@contextmanager
def pulled(client: MQClientInstance, wanted: OffsetRange, options: SourceOptions) -> Iterator[Pulls]:
    """The records of a range, an answer at a time; for blocking code.

    Records outside of the range may be among them. Pulling ends with the block.

    Raises:
        DataLossError: messages are gone, and that is an error.
        RocketMQError: a broker cannot be reached, does not answer, or refuses, after retries.
    """
    pulls = Pulls(client, wanted, options)
    try:
        yield pulls
    finally:
        pulls.close()


class Pulls:
    """Pulls one range. Iterating gives the bodies of answers, and may raise what `pulled` says."""

    def __init__(self, client: MQClientInstance, wanted: OffsetRange, options: SourceOptions) -> None:
        self._client = client
        self._options = options
        self._queue = wanted.queue
        self._progress = Progress(wanted, options.fail_on_data_loss, options.retries)
        self._data = subscription_of(wanted.queue.topic, options)
        self._replica = MASTER_ID
        self._accepted: set[str] = set()
        self._form: tuple[str, PullForm] | None = None
        self._ahead = PullsAhead(wanted.queue.topic, _PULL, options.pull_timeout)
        self._home = home_of(client)
        if not client.data_links.is_attached:
            attach_threads(client, self._home)

    def __iter__(self) -> Iterator[bytes]:
        """Pull until the range has been read."""
        progress = self._progress
        self._send_ahead(0)
        while not progress.is_done:
            before = progress.position
            answer, from_master = self._next()
            first = self._first_offset(answer)
            no_master = self._has_no_master()
            gap = first is not None and first > before and (from_master or no_master)
            expired = gap and self._has_expired(no_master=no_master)
            counts = progress.note(answer, from_master=from_master, first=first, expired=expired, no_master=no_master)
            self._replica = MASTER_ID if progress.ask_master else answer.suggested_broker_id
            self._ahead.note(progress.position - before, progress.position)
            self._send_ahead(len(answer.body))
            if answer.body and counts:
                yield answer.body
            if progress.pause:
                self._home.call(trio.sleep, _IDLE_PAUSE)

    def settle(self) -> None:
        """Call this before a time in which this thread does something else: nobody reads the answers then."""
        self._ahead.settle()

    def close(self) -> None:
        """Pull no more."""
        self._ahead.forget()

    def _send_ahead(self, size: int) -> None:
        """Send the next pulls, before an answer of some size is decoded; if they need not go through the portal."""
        progress, client = self._progress, self._client
        if progress.is_done or progress.pause:
            self._ahead.forget()
            return
        name = client.routes.broker_name(self._queue)
        broker = client.routes.find_broker(name, self._replica)
        if broker is None or not self._is_checked(broker.address):
            self._ahead.forget()
        else:
            left = range(progress.position, progress.range.until)
            self._ahead.send(client, broker, self._form_for(name), left, size)

    def _next(self) -> tuple[PulledRecords, bool]:
        """The next answer, and whether the master gave it; after retries if need be."""
        failed: list[RocketMQError] = []
        if (ahead := self._ahead.take()) is not None:
            pull, from_master = ahead
            try:
                if (answer := pull.result()) is not None:
                    return answer, from_master
            except RocketMQError as error:
                self._replica = MASTER_ID
                failed.append(error)
            self._ahead.forget()

        async def ask() -> tuple[PulledRecords, bool]:
            if failed:
                raise failed.pop()  # that was the first try
            return await self._pull()

        return self._home.call(
            retried,
            ask,
            self._options,
            doing=f"pulling {self._queue} from offset {self._progress.position}",
            client=self._client,
            topics=(self._queue.topic,),
        )

    async def _pull(self) -> tuple[PulledRecords, bool]:
        """Pull once. Returns the answer, and whether the master gave it."""
        replica, self._replica = self._replica, MASTER_ID  # after a failure the master is asked
        options, client = self._options, self._client
        name = client.routes.broker_name(self._queue)
        broker = client.routes.find_broker(name, replica)
        if broker is None:
            await client.routes.ensure_subscribe(self._queue.topic)
            broker = client.routes.find_broker(name, replica)
        if broker is None:
            raise BrokerUnreachableError(
                f"the broker {name} of {self._queue} is not known to the name servers now", topic=self._queue.topic
            )
        await self._check_filter(broker.address)
        answer = await self._form_for(name).ask_records(
            client.pool, broker.address, self._progress.position, _PULL, 0, timeout=options.pull_timeout
        )
        return answer, not broker.is_slave

    def _has_no_master(self) -> bool:
        routes = self._client.routes
        return routes.broker_address(routes.broker_name(self._queue)) is None

    def _first_offset(self, answer: PulledRecords) -> int | None:
        """The offset of the first message of an answer; None if there is none, or if a filter chooses messages."""
        if self._data.sub_string != subscription.ALL or len(answer.body) < _QUEUE_OFFSET.stop:
            return None
        return int.from_bytes(answer.body[_QUEUE_OFFSET], "big")

    def _has_expired(self, *, no_master: bool) -> bool:
        """Whether the messages at the position are gone, which an answer may have passed over.

        While a broker deletes files, a queue may still begin with a message whose file is deleted. That lasts seconds:
        once the oldest message can be read, it is the beginning that counts.
        """
        queue, client, timeout = self._queue, self._client, self._client.config.request_timeout

        async def address() -> str:
            if no_master:
                replica = client.routes.broker_address(client.routes.broker_name(queue), master=False)
                if replica is not None:
                    return replica
            return await QueueOffsets(client, self._options.group).master(queue)

        async def ask() -> bool:
            with trio.move_on_after(self._options.pull_timeout):
                while True:
                    # In this order: the queue may move on in between.
                    where = await address()
                    oldest = await offset_api.earliest_store_time(client.pool, where, queue, timeout=timeout)
                    begin = await offset_api.min_offset(client.pool, where, queue, timeout=timeout)
                    if oldest >= 0 or begin > self._progress.position:
                        return begin > self._progress.position
                    await trio.sleep(_IDLE_PAUSE)
            return True

        self._ahead.settle()
        return self._home.call(
            retried, ask, self._options, doing=f"asking where {queue} begins", client=client, topics=(queue.topic,)
        )

    def _is_checked(self, address: str) -> bool:
        return self._data.is_tag or address in self._accepted

    async def _check_filter(self, address: str) -> None:
        """Ask once whether a broker takes the SQL expression; Apache's answers a wrong one with all messages."""
        if self._is_checked(address):
            return
        client, group = self._client, self._options.group
        timeout = client.config.request_timeout
        await check_filter(client.pool, address, client.client_id, group, self._data, timeout=timeout)
        self._accepted.add(address)

    def _form_for(self, broker_name: str) -> PullForm:
        if self._form is None or self._form[0] != broker_name:
            header = PullMessageRequestHeader(
                consumer_group=self._options.group,
                topic=self._queue.topic,
                queue_id=self._queue.queue_id,
                queue_offset=0,
                max_msg_nums=self._options.pull_batch_size,
                sys_flag=_PULL,
                commit_offset=0,
                suspend_timeout_millis=0,
                subscription=self._data.sub_string,
                sub_version=self._data.sub_version,
                expression_type=self._data.expression_type,
                bname=broker_name,
            )
            self._form = broker_name, PullForm(header, broker_name=broker_name)
        return self._form[1]
