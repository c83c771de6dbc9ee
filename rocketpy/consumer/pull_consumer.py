"""PullConsumer: returns the messages of a queue from an offset on, and keeps no state. Plays DefaultMQPullConsumer."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Unpack, final

import trio

from rocketpy.client.api.group import check_filter
from rocketpy.client.api.pull import pull_message
from rocketpy.client.arguments import checked_count, checked_offset, checked_queue, checked_seconds
from rocketpy.client.instance import MQClientInstance
from rocketpy.client.preparing.values import give_serializers
from rocketpy.config import PullConsumerConfig
from rocketpy.consumer.fetching import Fetching
from rocketpy.consumer.offsets.offset_store import RemoteBrokerOffsetStore
from rocketpy.consumer.outside import PullOutside
from rocketpy.consumer.pull_statistics import PullConsumerStatistics, PullMeter
from rocketpy.consumer.requests.driven_pull import DrivenPull
from rocketpy.consumer.roles import PullRole
from rocketpy.consumer.subscription import Subscription, subscription_data, warn_of_separator
from rocketpy.consumer.surface import ON_TRIO, ConsumerSurface
from rocketpy.consumer.unwrapping import unwrapped
from rocketpy.consumer.user_calls import UserCalls
from rocketpy.errors import (
    BrokerError,
    BrokerUnreachableError,
    ConfigError,
    MessageDecodeError,
    OffsetOutOfRangeError,
    RequestTimeoutError,
    RocketMQError,
    ServiceCrashedError,
    TransportError,
)
from rocketpy.logs import Seldom, get_logger
from rocketpy.results import PullResult, PullStatus
from rocketpy.services import open_services
from rocketpy.wire.bodies.route import MASTER_ID
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.headers.pull import PullMessageRequestHeader
from rocketpy.wire.sysflag import PullSysFlag

if TYPE_CHECKING:
    from contextlib import AsyncExitStack
    from datetime import timedelta

    from rocketpy.config.typed import PullConsumerSettings
    from rocketpy.message import MessageQueue
    from rocketpy.remoting.network import Network

__all__ = ["PullConsumer"]

logger = get_logger(__name__)

_MOST_MESSAGES = 1024
_SELDOM = 3600.0
"""Seconds between two warnings about one filter."""
_MOST_ACCEPTED = 256
"""Expressions that are remembered as accepted. Others are checked again, with one more request."""


@final
class PullConsumer(Fetching):
    """Gets messages of one queue from an offset on: ``async with rocketpy.PullConsumer("audit") as consumer:``.

    It pulls only when you call it, keeps no positions, and commits only the offsets that you pass. To have messages
    pulled ahead and queues shared within the group, use `LitePullConsumer`.

    Args:
        group: name under which offsets are kept.
        config: the settings; `group` and `fields` override them.
        client: a client to share; None for one of its own.
        network: where a client of its own gets its connections.
        fields: settings by name, as in `PullConsumerConfig`.

    Raises:
        ConfigError: a setting cannot be used.
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        config: PullConsumerConfig | None = None,
        client: MQClientInstance | None = None,
        network: Network | None = None,
        _surface: ConsumerSurface = ON_TRIO,
        **fields: Unpack[PullConsumerSettings],
    ) -> None:
        self._made_with = {"group": group, "config": config, "client": client, "network": network, **fields}
        self._made_with["_surface"] = _surface
        base = config if config is not None or not isinstance(client, MQClientInstance) else client.config
        self.config = PullConsumerConfig.of(base, group=group, **fields)
        super().__init__(f"pull consumer {self.config.group}", self.config, client, network)
        self._role: PullRole | None = None
        self._meter: PullMeter | None = None
        self._calls = UserCalls(_surface.async_caller)
        self.outside = PullOutside(self._calls)  # for the other surfaces
        self._seldom = Seldom(logger, interval=_SELDOM)
        self._accepted: set[tuple[str, str | None]] = set()
        """Brokers with the expressions that they accept."""
        self._replicas: dict[MessageQueue, int] = {}
        """The ids of the brokers that masters have suggested to pull queues from, until those suggest the master."""

    def __repr__(self) -> str:
        """Short form for logs."""
        return f"<PullConsumer {self.config.group} {self._lifecycle.shown.value}>"

    async def _open(self, stack: AsyncExitStack) -> None:
        self._meter = PullMeter(trio.lowlevel.current_clock().current_time)
        self._role = PullRole(self.client, self.config, DrivenPull(self.client, self.config))
        self.client.register_consumer(self.config.group, self._role)
        stack.push_async_callback(self._leave)
        if self.config.on_statistics is not None:
            await self._report(stack)

    async def _report(self, stack: AsyncExitStack) -> None:
        """Report the statistics to the user's function, until the stack is left."""
        from rocketpy.client.reports import Reports  # few pull consumers report

        reports = Reports(f"pull consumer {self.config.group}", self.config, self.statistics, self._calls.call)
        nursery = await stack.enter_async_context(open_services())
        nursery.start_soon(reports.run)
        stack.push_async_callback(reports.close)

    async def _leave(self) -> None:
        with trio.move_on_after(self.config.close_timeout, shield=True):
            await self.client.unregister_consumer(self.config.group)

    @property
    def _group(self) -> str:
        return self.config.group

    def _check_usable(self) -> None:
        crash = None if self._role is None else self._role.crash
        if crash is not None:
            raise ServiceCrashedError(f"consumer {self.config.group} has crashed: {crash}") from crash
        self._lifecycle.check_here()
        self.client.check_open()

    # --- messages -------------------------------------------------------------------------------------

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_messages: int = 32,
        tags: str | None = None,
        sql: str | None = None,
        timeout: float | timedelta | None = None,
    ) -> PullResult:
        """Get the messages of a queue from an offset on, without waiting for any.

        A pull goes to the master, or to the replica that the answer to the last pull of this queue has suggested.

        Args:
            queue: the queue.
            offset: where to start.
            max_messages: how many at most; brokers return fewer if messages are large.
            tags: which messages, such as "created || paid"; all when None.
            sql: which messages, as an SQL92 expression; brokers must have `enablePropertyFilter`.
            timeout: seconds for the whole call; `consumer_pull_timeout` when None.

        Returns:
            The messages, and in any case the offset to pull from next. The status is FOUND; NO_NEW_MSG at the end of
            the queue; NO_MATCHED_MSG if the filter matches none; OFFSET_ILLEGAL outside of the queue.

        Raises:
            ConfigError: an argument cannot be used.
            FilterRefusedError: the broker refuses the SQL expression, or does not filter by SQL.
            MessageDecodeError: a message is damaged; its attribute `decoded` has those before it.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        budget = self.config.consumer_pull_timeout if timeout is None else checked_seconds("timeout", timeout)
        return await self._pull(queue, offset, max_messages, self._wanted(queue, tags, sql), budget, hold=None)

    async def pull_block_if_not_found(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_messages: int = 32,
        tags: str | None = None,
        sql: str | None = None,
    ) -> PullResult:
        """Get the messages of a queue from an offset on; if there are none, wait until one arrives.

        The broker holds the request for `broker_suspend_max_time` at most; then the status is NO_NEW_MSG.

        Args:
            queue: the queue.
            offset: where to start.
            max_messages: how many at most.
            tags: which messages, such as "created || paid"; all when None.
            sql: which messages, as an SQL92 expression; brokers must have `enablePropertyFilter`.

        Raises:
            ConfigError: an argument cannot be used.
            FilterRefusedError: the broker refuses the SQL expression, or does not filter by SQL.
            MessageDecodeError: a message is damaged; its attribute `decoded` has those before it.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        config = self.config
        wanted = self._wanted(queue, tags, sql)
        budget = config.consumer_timeout_when_suspend
        return await self._pull(queue, offset, max_messages, wanted, budget, hold=config.broker_suspend_max_time)

    async def _pull(
        self, queue: MessageQueue, offset: int, count: int, wanted: Subscription, budget: float, *, hold: float | None
    ) -> PullResult:
        checked_offset(offset)
        checked_count("max_messages", count, _MOST_MESSAGES)
        self._check_usable()
        meter, began = self._meter, trio.current_time()
        assert meter is not None
        with meter.counting():
            found = await self._pull_from(queue, offset, count, wanted, budget, hold=hold)
        meter.note(queue, found, began)
        return found

    async def _pull_from(
        self, queue: MessageQueue, offset: int, count: int, wanted: Subscription, budget: float, *, hold: float | None
    ) -> PullResult:
        deadline = trio.current_time() + budget
        address = await self._address(queue, budget)
        header = PullMessageRequestHeader(
            consumer_group=self.config.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=PullSysFlag.build(suspend=hold is not None, subscription=True),
            commit_offset=0,
            suspend_timeout_millis=round((hold or 0) * 1000),
            subscription=wanted.data.sub_string,
            sub_version=wanted.data.sub_version,
            expression_type=wanted.data.expression_type,
            bname=self.client.routes.broker_name(queue),
        )
        own = self.config.serializers
        try:
            result = await self._ask(address, header, queue, wanted, deadline)
            found = _wanted_of(result, offset, wanted)
        except RocketMQError as error:
            if isinstance(error, MessageDecodeError):
                give_serializers(error.decoded, own)
            self._replicas.pop(queue, None)  # the next pull goes to the master
            raise
        self._replicas.pop(queue, None)
        if result.suggested_broker_id != MASTER_ID:
            self._replicas[queue] = result.suggested_broker_id
        if own:
            give_serializers(found.messages, own)
        return found

    async def _ask(
        self,
        address: str,
        header: PullMessageRequestHeader,
        queue: MessageQueue,
        wanted: Subscription,
        deadline: float,
    ) -> PullResult:
        """Pull from a broker that accepts the subscription."""
        by_expression = not wanted.data.is_tag
        if by_expression and (address, wanted.data.sub_string) not in self._accepted:
            await self._check_filter(address, wanted, deadline)
        pool, left = self.client.pool, max(0.001, deadline - trio.current_time())
        try:
            return await pull_message(pool, address, header, broker_name=queue.broker_name, timeout=left)
        except BrokerError as error:
            # The code for brokers that do not filter by SQL, since a restart for example; but not for them alone.
            if by_expression and error.code == ResponseCode.SYSTEM_ERROR:
                with suppress(TransportError, RequestTimeoutError):  # the broker's own answer says more
                    await self._check_filter(address, wanted, deadline)
            raise

    async def _check_filter(self, address: str, wanted: Subscription, deadline: float) -> None:
        """Ask a broker whether it accepts an SQL expression; Apache's answers a pull by a wrong one with all messages.

        Raises:
            FilterRefusedError: it does not, or does not filter by SQL at all.
            TransportError, RequestTimeoutError: it does not answer, so that nothing may be pulled yet.
        """
        client, left = self.client, max(0.001, deadline - trio.current_time())
        await check_filter(client.pool, address, client.client_id, self.config.group, wanted.data, timeout=left)
        if len(self._accepted) >= _MOST_ACCEPTED:
            self._accepted.clear()
        self._accepted.add((address, wanted.data.sub_string))

    async def _address(self, queue: MessageQueue, budget: float) -> str:
        """The broker that the last answer has suggested to pull from."""
        routes, wanted = self.client.routes, self._replicas.get(queue, MASTER_ID)
        broker = routes.find_broker(routes.broker_name(queue), wanted)
        if broker is None:
            await routes.ensure_subscribe(queue.topic, timeout=budget)
            broker = routes.find_broker(routes.broker_name(queue), wanted)
        if broker is None:
            raise BrokerUnreachableError(
                f"the topic {queue.topic} has no broker {queue.broker_name} now: see fetch_message_queues",
                topic=queue.topic,
            )
        return broker.address

    def statistics(self) -> PullConsumerStatistics:
        """What it has done since it started.

        Raises:
            ClientClosedError: it was never started.
        """
        if self._meter is None:
            self._lifecycle.check_open()
            raise AssertionError("an open consumer counts its pulls")
        return self._meter.statistics()

    # --- offsets --------------------------------------------------------------------------------------

    async def update_consume_offset(self, queue: MessageQueue, offset: int) -> None:
        """Commit the offset of the next message to consume, and wait until the broker has confirmed it.

        The broker is asked first where the queue ends, for an offset behind that would keep the group from messages.

        Args:
            queue: a queue of a topic.
            offset: the offset of the next message to consume.

        Raises:
            ConfigError: an argument cannot be used.
            OffsetOutOfRangeError: the queue does not reach that far.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        checked_offset(offset)
        offsets = self._offsets_of(queue)
        least, end = await offsets.bounds(queue)
        if offset > end:
            raise OffsetOutOfRangeError(
                f"{queue} ends at offset {end}, so that {offset} cannot be committed",
                offset=offset,
                min_offset=least,
                max_offset=end,
            )
        await RemoteBrokerOffsetStore(self.client, self.config.group).tell(queue, offset, wait=True)

    async def fetch_consume_offset(self, queue: MessageQueue) -> int | None:
        """The committed offset of a queue, as its broker has it; None when nothing was ever committed.

        A broker of 4.x answers 0 for a group without an offset if the queue still has its first message.

        Args:
            queue: a queue of a topic.

        Raises:
            ConfigError: this is not a queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        return await self._offsets_of(queue).committed(queue)

    def _wanted(self, queue: MessageQueue, tags: str | None, sql: str | None) -> Subscription:
        wanted = _subscription(queue, tags, sql)
        warn_of_separator(queue.topic, tags, self._seldom)
        return wanted


def _subscription(queue: MessageQueue, tags: str | None, sql: str | None) -> Subscription:
    checked_queue(queue)
    if tags is not None and sql is not None:
        raise ConfigError(f"filter {queue.topic} by tags or by sql, not by both")
    return Subscription(subscription_data(queue.topic, tags, sql), None)


def _wanted_of(result: PullResult, offset: int, wanted: Subscription) -> PullResult:
    """The answer with batches unpacked, and without messages that have another tag with the same hash."""
    if result.status is not PullStatus.FOUND:
        return result
    messages = list(wanted.filtered(unwrapped(result.messages, offset)))
    return PullResult(
        status=PullStatus.FOUND if messages else PullStatus.NO_MATCHED_MSG,
        next_begin_offset=result.next_begin_offset,
        min_offset=result.min_offset,
        max_offset=result.max_offset,
        messages=messages,
        suggested_broker_id=result.suggested_broker_id,
    )
