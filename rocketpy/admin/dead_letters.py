"""DeadLetters: reads the dead letters of a group and sends them to their original topics again, as new messages.

The group's offset in its dead-letter topic is committed at the brokers after every few messages, so a replay continues
where the last one ended, even in another process. A message is committed only after a broker has stored it again, so a
replay that is killed in between may lead to a few messages being sent twice, with the same unique ids. Java has no
counterpart; its users do this by hand.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.admin.resending import Resender, copied
from rocketpy.client.api import offset as offset_api
from rocketpy.client.api.pull import pull_message
from rocketpy.client.arguments import checked_flag
from rocketpy.errors import (
    BrokerUnreachableError,
    ConfigError,
    MessageDecodeError,
    RocketMQError,
    TopicNotFoundError,
)
from rocketpy.logs import get_logger
from rocketpy.message import Message, MessageExt, MessageQueue, PropertyName
from rocketpy.reprs import Short
from rocketpy.results import PullStatus
from rocketpy.wire.headers.pull import PullMessageRequestHeader
from rocketpy.wire.names import DLQ_PREFIX, dlq_topic, is_retry_topic, retry_topic
from rocketpy.wire.sysflag import PullSysFlag

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.results import PullResult

__all__ = ["DeadLetterReplay", "DeadLetters"]

logger = get_logger(__name__)

BATCH = 32
"""Messages that are read at a time; their offset is committed before the next ones are read."""
_COMMIT_TIMEOUT = 3.0

_running: dict[tuple[int, tuple[str, ...], str], DeadLetters] = {}
"""The replays of this process, by its id, the name servers and the group. A child process after a fork has none."""


@attrs.frozen(kw_only=True, repr=False)
class DeadLetterReplay(Short):
    """The result of a replay of dead letters."""

    replayed: int
    """Messages sent again; with `dry_run`, those that would have been sent."""
    skipped: int
    """Messages that `wanted` rejected, or that do not name their original topic. The next replay skips them too."""
    remaining: int
    """Messages that were dead letters before the replay started and are left for the next one."""
    topics: Mapping[str, int]
    """How many messages were sent to each topic."""


class DeadLetters:
    """The steps of a replay of one group's dead letters, for every surface.

    Args:
        client: an open client.
        group: the consumer group.
        limit: the maximum number to send; None for no limit.
        dry_run: only count; send and commit nothing.
    """

    def __init__(self, client: MQClientInstance, group: str, *, limit: int | None, dry_run: bool) -> None:
        self._client = client
        self._group = group
        self._topic = dlq_topic(group)
        self._left = limit
        self._dry_run = checked_flag("dry_run", dry_run)
        self._resender = Resender(client)
        self._positions: dict[MessageQueue, int] | None = None
        self._ends: dict[MessageQueue, int] = {}
        self._told: dict[MessageQueue, int] = {}
        """Positions of queues at which the answer to a pull was to pull from that same position."""
        self._replayed: Counter[str] = Counter()
        self._skipped = 0
        self._uncommitted = 0
        """Messages that were sent since the last commit."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """The block in which the replay takes place. If it ends early, the log and a note of the exception say where.

        Raises:
            ConfigError: another replay of the group runs in this process. Both would send the same messages.
        """
        key = os.getpid(), self._client.name_servers.addresses, self._group
        if not self._dry_run and _running.setdefault(key, self) is not self:
            raise ConfigError(
                f"a replay of the dead letters of {self._group} is running in this process: wait until it has ended"
            )
        try:
            yield
        except BaseException as error:  # a cancellation and Ctrl-C too: somebody may want to know what was sent
            if self._positions is not None:
                progress = self._progress()
                logger.warning("the replay of dead letters of %s ended early: %s", self._group, progress)
                error.add_note(f"The replay of dead letters of {self._group} ended early: {progress}.")
            raise
        finally:
            if _running.get(key) is self:
                del _running[key]

    # --- the steps ------------------------------------------------------------------------------------

    async def next_batch(self) -> list[MessageExt]:
        """The next dead letters, each with the topic that it would be sent to; empty at the end, or at the limit.

        Messages that become dead letters after the first call are left alone, so one that fails again is not replayed
        in an endless loop.

        Raises:
            TopicNotFoundError: no broker knows the group.
            RocketMQError: a broker cannot be reached or does not let the group read, or a dead letter is damaged.
        """
        if self._positions is None:
            await self._find_positions()
        while self._left is None or self._left > 0:
            queue = next((each for each, at in self._at.items() if at < self._ends[each]), None)
            if queue is None:
                return []
            messages = await self._read(queue)
            if messages:
                return messages
        return []

    async def settle(self, messages: Sequence[MessageExt], wanted: Sequence[bool]) -> None:
        """Send the wanted messages of a batch in order, and commit the offset reached, even if this fails on the way.

        Args:
            messages: a batch as `next_batch` returns it.
            wanted: for each of them, whether to send it.

        Raises:
            RocketMQError: a message could not be sent, or the offset could not be committed.
        """
        queue = self._queue_of(messages[0])
        try:
            for message, is_wanted in zip(messages, wanted, strict=True):
                if self._left == 0:
                    break
                await self._settle_one(message, is_wanted=is_wanted)
                self._at[queue] = message.queue_offset + 1
            await self._commit(queue)
        except BaseException:  # cancellation too: the next replay must not send the same messages again
            await self._commit_at_end(queue)
            raise

    def result(self) -> DeadLetterReplay:
        """What the replay has done so far."""
        return DeadLetterReplay(
            replayed=self._replayed.total(),
            skipped=self._skipped,
            remaining=sum(max(0, end - self._at[queue]) for queue, end in self._ends.items()),
            topics=dict(self._replayed),
        )

    def _progress(self) -> str:
        """What was done so far, and where the next replay starts."""
        done = self.result()
        would = "would have been " if self._dry_run else ""
        text = (
            f"{done.replayed} messages {would}sent, {done.skipped} skipped, {done.remaining} left for the next replay"
        )
        if self._uncommitted:
            text += f"; the last {self._uncommitted} sent could not be committed, so it will send them again"
        return text

    # --- inside ---------------------------------------------------------------------------------------

    @property
    def _at(self) -> dict[MessageQueue, int]:
        return self._positions if self._positions is not None else {}

    def _queue_of(self, message: MessageExt) -> MessageQueue:
        return MessageQueue(self._topic, message.broker_name, message.queue_id)

    async def _find_positions(self) -> None:
        """Find where to start in each queue, and where it ends now."""
        try:
            queues = await self._client.routes.ensure_subscribe(self._topic)
        except TopicNotFoundError as error:
            await self._check_group(error)
            queues = ()  # nothing has died yet
        pool, timeout = self._client.pool, self._client.config.request_timeout
        found: dict[MessageQueue, int] = {}
        ends: dict[MessageQueue, int] = {}
        for queue in sorted(queues):
            address = self._master(queue)
            committed = await offset_api.query_consumer_offset(
                pool, address, self._group, queue, set_zero_if_not_found=False, timeout=timeout
            )
            least = await offset_api.min_offset(pool, address, queue, timeout=timeout)
            ends[queue] = await offset_api.max_offset(pool, address, queue, timeout=timeout)
            found[queue] = max(least, committed or 0)
        self._positions, self._ends = found, ends

    async def _check_group(self, error: TopicNotFoundError) -> None:
        """Refuse a group that has never existed. A broker creates the retry topic of a group at its first heartbeat.

        Raises:
            TopicNotFoundError: there is no retry topic either.
        """
        if await self._client.routes.refresh(retry_topic(self._group)) is None:
            raise TopicNotFoundError(
                f"no broker knows the group {self._group}: there is neither {self._topic} nor "
                f"{retry_topic(self._group)}; check the spelling of the group",
                topic=self._topic,
                tried=error.tried,
            ) from error

    async def _read(self, queue: MessageQueue) -> list[MessageExt]:
        """The next dead letters of a queue; none if only the position has moved."""
        position = self._at[queue]
        header = PullMessageRequestHeader(
            consumer_group=self._group,
            topic=self._topic,
            queue_id=queue.queue_id,
            queue_offset=position,
            max_msg_nums=BATCH,
            sys_flag=PullSysFlag.build(commit_offset=False, suspend=False, subscription=True, class_filter=False),
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
            expression_type="TAG",
            bname=queue.broker_name,
        )
        timeout = self._client.config.request_timeout
        try:
            result = await pull_message(
                self._client.pool, self._master(queue), header, broker_name=queue.broker_name, timeout=timeout
            )
            messages = result.messages
        except MessageDecodeError as error:
            if not error.decoded:
                raise
            messages, result = list(error.decoded), None
        messages = [message for message in messages if position <= message.queue_offset < self._ends[queue]]
        if messages:
            for message in messages:
                message.topic = _origin(message) or message.topic
            return messages
        if result is None or result.status is not PullStatus.OFFSET_ILLEGAL or not self._follow(queue, result):
            self._ends[queue] = position
        return []

    def _follow(self, queue: MessageQueue, moved: PullResult) -> bool:
        """Continue at the offset that a broker has returned. False if there is nothing more to read."""
        position, following = self._at[queue], moved.next_begin_offset
        if following == position and self._told.get(queue) != position:
            self._told[queue] = position  # the group was reset to this offset before the replay: pull once more
            return True
        self._at[queue] = max(position, following)  # the oldest messages have been deleted meanwhile
        return following > position

    async def _settle_one(self, message: MessageExt, *, is_wanted: bool) -> None:
        if message.topic == self._topic:
            logger.warning("%r does not say which topic it comes from: skipped", message)
            is_wanted = False
        if not is_wanted:
            self._skipped += 1
            return
        if not self._dry_run:
            await self._resender.send(_again(message))
            self._uncommitted += 1
        self._replayed[message.topic] += 1
        if self._left is not None:
            self._left -= 1

    async def _commit(self, queue: MessageQueue) -> None:
        if self._dry_run:
            return
        await offset_api.update_consumer_offset(
            self._client.pool,
            self._master(queue),
            self._group,
            queue,
            self._at[queue],
            wait=True,
            timeout=self._client.config.request_timeout,
        )
        self._uncommitted = 0

    async def _commit_at_end(self, queue: MessageQueue) -> None:
        """Commit the offset reached by a replay that ends early.

        This raises nothing of its own: it would hide what ended the replay, and undo a cancellation or Ctrl-C.
        """
        with trio.move_on_after(_COMMIT_TIMEOUT, shield=True):
            try:
                await self._commit(queue)
            except RocketMQError as error:
                logger.warning("the offset of %s in %s could not be committed: %s", self._group, queue, error)

    def _master(self, queue: MessageQueue) -> str:
        address = self._client.routes.broker_address(queue.broker_name)
        if address is None:
            remark = f"the broker {queue.broker_name} with dead letters of {self._group} has no master: start it"
            raise BrokerUnreachableError(remark, topic=self._topic)
        return address


def _origin(message: MessageExt) -> str | None:
    """The original topic of a dead letter; None if its properties do not name it."""
    for name in (PropertyName.RETRY_TOPIC, PropertyName.DLQ_ORIGIN_TOPIC):
        topic = message.wire_properties.get(name)
        if topic and not is_retry_topic(topic) and not topic.startswith(DLQ_PREFIX):
            return topic
    return None


def _again(message: MessageExt) -> Message:
    """Return a new message from a dead letter, with its unique id and properties with its original topic and id."""
    copy = copied(message)
    copy.wire_properties.setdefault(PropertyName.RETRY_TOPIC, message.topic)
    return copy
