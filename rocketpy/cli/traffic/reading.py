"""Reads one queue from an offset on: without a group of its own, and without committing anything."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from rocketpy.admin.reading import READER_GROUP
from rocketpy.client.api.group import check_filter
from rocketpy.client.api.pull import PullForm
from rocketpy.consumer.unwrapping import good_from, unwrapped
from rocketpy.errors import BrokerUnreachableError, MessageDecodeError
from rocketpy.logs import counted
from rocketpy.results import PullStatus
from rocketpy.wire.bodies.subscription import SubscriptionData
from rocketpy.wire.headers.pull import PullMessageRequestHeader
from rocketpy.wire.sysflag import PullSysFlag

if TYPE_CHECKING:
    from rocketpy.admin.servers import Servers
    from rocketpy.message import MessageExt, MessageQueue

__all__ = ["QueueReader", "Wanted"]

BATCH = 256
"""Messages that a pull asks for; brokers return fewer, 32 by default."""
HELD = 15.0
"""Seconds for which a broker may hold a pull."""
_WINDOW = 64
"""Offsets at the end of a queue that are read first, if not every message is wanted."""
_AT_ONCE = PullSysFlag.build(subscription=True)
_HELD = PullSysFlag.build(subscription=True, suspend=True)


@attrs.frozen
class Wanted:
    """Which messages are wanted."""

    data: SubscriptionData
    """The tags, or the SQL expression."""
    key: str | None = None
    """A key or the unique id of each; None for all messages."""
    since: int = 0
    """The earliest store time, in ms since 1970."""

    @property
    def is_all(self) -> bool:
        """Whether every message is wanted."""
        return self.data.is_tag and not self.data.tags_set and self.key is None

    def of(self, messages: Sequence[MessageExt]) -> Sequence[MessageExt]:
        """Those that are wanted: brokers compare only hashes of tags, and no keys."""
        if self.data.tags_set:
            messages = [each for each in messages if self.data.matches_tag(each.tags)]
        if self.key is not None:
            messages = [each for each in messages if self.key in each.keys or each.message_id == self.key]
        if self.since:
            messages = [each for each in messages if each.store_timestamp >= self.since]
        return messages


class QueueReader:
    """Reads one queue.

    Args:
        servers: the servers of an open Admin.
        queue: the queue.
        wanted: which messages are wanted.
        note: called with a line about messages that cannot be shown.

    Attributes:
        queue: the queue.
        position: the offset of the next message.
    """

    def __init__(self, servers: Servers, queue: MessageQueue, wanted: Wanted, note: Callable[[str], None]) -> None:
        self.queue = queue
        self.position = 0
        self._servers = servers
        self._wanted = wanted
        self._note = note
        self._form = PullForm(self._header(), broker_name=queue.broker_name)
        self._checked = ""
        """The broker that accepts the SQL expression."""

    def _header(self) -> PullMessageRequestHeader:
        wanted = self._wanted.data
        return PullMessageRequestHeader(
            consumer_group=READER_GROUP,
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
            queue_offset=0,
            max_msg_nums=BATCH,
            sys_flag=_AT_ONCE,
            commit_offset=0,
            suspend_timeout_millis=round(HELD * 1000),
            subscription=wanted.sub_string,
            sub_version=wanted.sub_version,
            expression_type=wanted.expression_type,
            bname=self._servers.client.routes.broker_name(self.queue),
        )

    def address(self) -> str:
        """The broker to pull from: the master, or a slave if there is no master.

        Raises:
            BrokerUnreachableError: there is no broker of that name now.
        """
        routes = self._servers.client.routes
        broker = routes.find_broker(routes.broker_name(self.queue))
        if broker is None:
            raise BrokerUnreachableError(
                f"the broker {self.queue.broker_name} is not registered with the name servers now",
                topic=self.queue.topic,
            )
        return broker.address

    async def next(self, *, hold: bool = False) -> tuple[Sequence[MessageExt], bool]:
        """The next messages that are wanted, and whether this was the end of the queue.

        Args:
            hold: whether the broker waits for a message if there is none.

        Raises:
            FilterRefusedError: the broker refuses the SQL expression, or does not filter by SQL.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        address, timeout = self.address(), self._servers.timeout
        await self.check(address)
        pool, position = self._servers.client.pool, self.position
        flag = _HELD if hold else _AT_ONCE
        try:
            found = await self._form.ask(pool, address, position, flag, 0, timeout=timeout + HELD if hold else timeout)
        except MessageDecodeError as error:
            return self._damaged(error), False
        if found.status is PullStatus.OFFSET_ILLEGAL:
            self._move(found.next_begin_offset)
            return (), found.next_begin_offset == position
        if found.status is not PullStatus.FOUND:
            self.position = max(position, found.next_begin_offset)
            return (), found.status is PullStatus.NO_NEW_MSG
        try:
            messages = unwrapped(found.messages, position)
        except MessageDecodeError as error:
            before = self._damaged(error)
            behind = [each.queue_offset for each in found.messages if each.queue_offset >= self.position]
            self.position = min(behind, default=max(self.position, found.next_begin_offset))  # it is left out whole
            return before, False
        self.position = max(position, found.next_begin_offset)
        return self._wanted.of(messages), False

    def _damaged(self, error: MessageDecodeError) -> Sequence[MessageExt]:
        """The messages before one that is damaged, which is left out: of two, the first."""
        messages, earlier = good_from(list(error.decoded), self.position)
        error = earlier or error
        damaged = messages[-1].queue_offset + 1 if messages else self.position
        self._note(f"the message at {self.queue}+{damaged} is damaged and left out: {error}")
        self.position = damaged + 1
        return self._wanted.of(messages)

    def _move(self, offset: int) -> None:
        """Continue elsewhere, because the queue does not have this position."""
        if offset > self.position:
            gone = counted(offset - self.position, "message")
            self._note(f"{gone} of {self.queue} were deleted before they were read; continuing at offset {offset}")
        elif offset < self.position:
            self._note(f"{self.queue} ends at offset {offset}, before {self.position}; continuing at its end")
        self.position = offset

    async def check(self, address: str) -> None:
        """Have a broker check an SQL expression: Apache's answers a pull by a wrong one with all messages.

        Raises:
            FilterRefusedError: it refuses the expression, or does not filter by SQL.
        """
        if self._wanted.data.is_tag or self._checked == address:
            return
        client = self._servers.client
        await check_filter(
            client.pool, address, client.client_id, READER_GROUP, self._wanted.data, timeout=self._servers.timeout
        )
        self._checked = address

    # --- the last ones --------------------------------------------------------------------------------

    async def last(self, least: int, end: int, count: int) -> list[MessageExt]:
        """The last messages before the offset `end` that are wanted, in their order. Moves the position.

        Raises: what `next` raises.
        """
        found: list[MessageExt] = []
        window = count if self._wanted.is_all else max(_WINDOW, count)
        while end > least and len(found) < count:
            begin = max(least, end - window)
            found = [*await self._span(begin, end, count), *found]
            end, window = begin, window * 4
        return found[-count:]

    async def _span(self, begin: int, end: int, count: int) -> list[MessageExt]:
        """The last wanted messages between two offsets."""
        found: deque[MessageExt] = deque(maxlen=count)
        self.position = begin
        while self.position < end:
            messages, is_end = await self.next()
            found.extend(each for each in messages if each.queue_offset < end)
            if is_end:
                break
        return list(found)
