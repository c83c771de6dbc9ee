"""Messages: find them, read queues, send messages again, list and replay dead letters, and track messages."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rocketpy.admin.entries import entries
from rocketpy.admin.groups import check_known
from rocketpy.admin.part import Part
from rocketpy.admin.reading import bounds, check_queue, read
from rocketpy.admin.tracking import track
from rocketpy.client.api import offset as offset_api
from rocketpy.client.api import query as query_api
from rocketpy.client.arguments import check_dead_letters, checked_count, checked_offset, checked_queue
from rocketpy.errors import (
    BrokerError,
    BrokerNotFoundError,
    BrokersFailedError,
    ConfigError,
    MessageNotFoundError,
    TopicNotFoundError,
)
from rocketpy.message import MessageExt, MessageQueue
from rocketpy.moments import checked_moment
from rocketpy.trace.decoding import TraceRecord, decode_traces
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.hosts import format_address
from rocketpy.wire.message_id import decode_offset_message_id
from rocketpy.wire.names import check_group, check_topic, dlq_topic

if TYPE_CHECKING:
    from datetime import datetime

    from rocketpy.admin.dead_letters import DeadLetterReplay
    from rocketpy.admin.results.clients import MessageTrack
    from rocketpy.admin.results.entries import QueueEntries
    from rocketpy.admin.servers import Servers
    from rocketpy.results import SendResult

__all__ = ["Messages", "check_key"]

_ALL_TIME = 2**62
_MOST = 100_000
_MOST_ENTRIES = 10_000
"""Of one answer: brokers look at each entry, and at what the group subscribes to."""
_TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
_QUERIED = 64
"""The most messages that a broker returns for one query."""


class Messages(Part):
    """The messages of a cluster: ``admin.messages``."""

    __slots__ = ()

    # --- single ones ----------------------------------------------------------------------------------

    async def view(self, message_id: str, *, topic: str | None = None) -> MessageExt:
        """Find one message by its id.

        Args:
            message_id: the offset message id; with `topic`, it may also be the unique id that the producer gave it.
            topic: the topic of the message.

        Raises:
            ConfigError: this is not a message id.
            MessageNotFoundError: no broker has the message.
            TopicNotFoundError: the topic does not exist.
            BrokersFailedError: some brokers did not answer, and the others do not have the message.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        place = decode_offset_message_id(message_id)
        servers = self._usable()
        if topic is not None:
            found = await _query(servers, topic, message_id, unique=True)
            if found:
                return found[-1]
        host = format_address(place.ip, place.port)
        where = await _broker_at(servers, host)
        if where is None:
            looked = "" if topic is None else f" in the topic {topic}, by its unique id"
            then = "; to find a message by its unique id, pass the topic too" if topic is None else ""
            raise MessageNotFoundError(
                f"there is no message {message_id}{looked}: as an offset message id, it names the broker {host}, which "
                f"is not registered{then}",
                message_id=message_id,
            )
        name, address = where
        try:
            return await query_api.view_message(
                servers.client.pool, address, place.offset, broker_name=name, topic=topic, timeout=servers.timeout
            )
        except BrokerError as error:
            if error.code != ResponseCode.SYSTEM_ERROR:
                raise
            raise MessageNotFoundError(
                f"{address} has no message {message_id}; it may have been deleted: {error.remark}",
                message_id=message_id,
            ) from error

    async def query(
        self,
        topic: str,
        key: str,
        *,
        begin: int | datetime = 0,
        end: int | datetime | None = None,
        max_messages: int = 64,
    ) -> tuple[MessageExt, ...]:
        """Find messages by a key, sorted by store time.

        Args:
            topic: the topic.
            key: one of the keys of the messages.
            begin: the earliest store time, as ms since 1970 or a datetime with a time zone.
            end: the latest store time; None for no limit.
            max_messages: the maximum number of messages; each broker returns at most its 64 newest.

        Raises:
            ConfigError: an argument cannot be used.
            TopicNotFoundError: the topic does not exist.
            BrokersFailedError: some brokers did not answer; `result` has the messages of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """
        first, last = _span(begin, end)
        count = checked_count("max_messages", max_messages, _MOST)
        return (await _query(self._usable(), topic, key, begin=first, end=last))[:count]

    async def query_unique(self, topic: str, unique_id: str) -> tuple[MessageExt, ...]:
        """Find messages by a unique id: one, or several if the producer retried the send; sorted by store time.

        Args:
            topic: the topic.
            unique_id: the id that the producer gave the message.

        Raises:
            ConfigError: an argument cannot be used.
            TopicNotFoundError: the topic does not exist.
            BrokersFailedError: some brokers did not answer; `result` has the messages of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """
        return await _query(self._usable(), topic, unique_id, unique=True)

    # --- many -----------------------------------------------------------------------------------------

    async def read(
        self,
        queue: MessageQueue,
        *,
        begin: int = 0,
        end: int | None = None,
        max_messages: int = 32,
        tags: str | None = None,
    ) -> tuple[MessageExt, ...]:
        """Read messages of a queue from an offset on. This changes no group's offset.

        Args:
            queue: the queue.
            begin: the first offset; if it was deleted, reading begins at the oldest message.
            end: the offset before which reading ends; None for the end of the queue.
            max_messages: the maximum number of messages.
            tags: the tags of the wanted messages, such as "created || paid"; None for all messages.

        Raises:
            ConfigError: an argument cannot be used, or the broker has no such queue.
            BrokerNotFoundError: there is no such broker.
            TopicNotFoundError: the topic does not exist.
            MessageDecodeError: a message is damaged.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        checked_queue(queue)
        checked_offset(begin)
        _check_tags(tags)
        count = checked_count("max_messages", max_messages, _MOST)
        servers = self._usable()
        address = await servers.one(queue.broker_name)
        least, last = await bounds(servers, address, queue)
        if last == 0:  # also what brokers answer for a queue that they do not have
            await check_queue(servers, queue)
        stop = last if end is None else min(checked_offset(end), last)
        return tuple(await read(servers, address, queue, max(begin, least), stop, count, tags=tags))

    async def entries(
        self, queue: MessageQueue, *, begin: int = 0, count: int = 10, group: str | None = None
    ) -> QueueEntries:
        """Entries of a consume queue from an offset on, without the messages, and which of them a group would get.

        Args:
            queue: the queue.
            begin: the offset of the first entry.
            count: the maximum number of entries.
            group: a group with connected members, whose subscription is applied to the entries.

        Raises:
            ConfigError: an argument cannot be used, or the broker has no such queue.
            BrokerNotFoundError: there is no such broker.
            TopicNotFoundError: the topic does not exist.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        checked_queue(queue)
        first, most = checked_offset(begin), checked_count("count", count, _MOST_ENTRIES)
        if group is not None:
            check_group(group)
        return await entries(self._usable(), queue, first, most, group)

    async def by_time(
        self,
        topic: str,
        begin: int | datetime,
        end: int | datetime | None = None,
        *,
        max_messages: int = 32,
        tags: str | None = None,
    ) -> tuple[MessageExt, ...]:
        """Read messages of all queues of a topic that were stored in a span of time, sorted by store time.

        Args:
            topic: the topic.
            begin: the earliest store time, as ms since 1970 or a datetime with a time zone.
            end: the latest store time; None for no limit.
            max_messages: the maximum number of messages; the oldest come first.
            tags: the tags of the wanted messages, such as "created || paid"; None for all messages.

        Raises:
            ConfigError: an argument cannot be used.
            TopicNotFoundError: the topic does not exist.
            MessageDecodeError: a message is damaged.
            BrokersFailedError: some brokers did not answer; `result` has the messages of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """
        first, last = _span(begin, end)
        _check_tags(tags)
        count = checked_count("max_messages", max_messages, _MOST)
        return await _by_time(self._usable(), topic, first, last, count, tags)

    # --- again ----------------------------------------------------------------------------------------

    async def resend(self, message: MessageExt, *, topic: str | None = None) -> SendResult:
        """Send a stored message again, as a new message with the same unique id. All subscribers of the topic get it.

        Args:
            message: the message.
            topic: the topic to send it to; None for its own.

        Raises:
            ConfigError: this is not a message from a broker, or its topic cannot be sent to.
            TopicNotFoundError: the topic does not exist.
            RocketMQError: the message could not be sent.
        """
        if not isinstance(message, MessageExt):
            raise ConfigError(f"only a message that was read from a broker can be sent again, not {message!r:.100}")
        from rocketpy.admin.resending import Resender, copied  # sending needs much code, and most commands only read

        copy = copied(message)
        if topic is not None:
            check_topic(topic)
            copy.topic = topic
        return await Resender(self._usable().client).send(copy)

    async def dead_letters(
        self, group: str, *, begin: int | datetime = 0, max_messages: int = 32
    ) -> tuple[MessageExt, ...]:
        """Read the dead letters of a group, sorted by the time when they became dead letters. Nothing is committed.

        Args:
            group: the consumer group.
            begin: the earliest time, as ms since 1970 or a datetime with a time zone.
            max_messages: the maximum number of messages; the oldest come first.

        Raises:
            ConfigError: an argument cannot be used.
            GroupNotFoundError: no broker has the group.
            NoPermissionError: the dead-letter topic is not readable; give it permission "rw" first.
            BrokersFailedError: some brokers did not answer; `result` has the messages of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """
        check_dead_letters(group, max_messages)
        first, count = checked_moment("begin", begin), checked_count("max_messages", max_messages, _MOST)
        servers = self._usable()
        try:
            return await _by_time(servers, dlq_topic(group), first, _ALL_TIME, count, None)
        except TopicNotFoundError:
            await check_known(servers, group)
            return ()

    async def replay_dead_letters(
        self, group: str, *, limit: int | None = None, dry_run: bool = False
    ) -> DeadLetterReplay:
        """Send the dead letters of a group to their original topics.

        `rocketpy.replay_dead_letters` does the same, and also takes `wanted`, a function that chooses messages.

        Args:
            group: the consumer group.
            limit: the maximum number to send.
            dry_run: only count; send and commit nothing.

        Raises:
            ConfigError: an argument cannot be used, or another replay of the group runs in this process.
            TopicNotFoundError: no broker knows the group.
            NoPermissionError: the dead-letter topic is not readable; give it permission "rw" first.
            RocketMQError: a broker could not be read, or a message could not be sent. The messages sent so far are
                committed if possible; a note of the error and the log say how many there are.
        """
        check_dead_letters(group, limit)
        from rocketpy.admin.dead_letters import DeadLetters  # for the same reason

        letters = DeadLetters(self._usable().client, group, limit=limit, dry_run=dry_run)
        with letters.running():
            while batch := await letters.next_batch():
                await letters.settle(batch, [True] * len(batch))
        return letters.result()

    # --- what became of it ----------------------------------------------------------------------------

    async def track(self, message: MessageExt) -> tuple[MessageTrack, ...]:
        """What each group that consumes its topic has done with a message, sorted by group.

        Args:
            message: a message that was read from a broker, for example by `view` with its topic.

        Raises:
            ConfigError: this is not a message from a broker.
            BrokerNotFoundError: its broker is no longer registered.
            RocketMQError: its broker did not say which groups consume the topic.
        """
        if not isinstance(message, MessageExt):
            raise ConfigError(f"only a message that was read from a broker can be tracked, not {message!r:.100}")
        servers = self._usable()
        where = await _broker_of(servers, message)
        if where is None:
            raise BrokerNotFoundError(
                f"the message {message.message_id} comes from the broker {message.store_host}, which is not registered",
                name=message.store_host,
            )
        name, address = where
        return await track(servers, address, name, message)

    async def trace(self, message_id: str, *, trace_topic: str = _TRACE_TOPIC) -> tuple[TraceRecord, ...]:
        """The trace records of a message, sorted by time, if its clients were traced.

        Args:
            message_id: the unique id that the producer gave the message, or one of its keys.
            trace_topic: the topic to which its clients send their records.

        Raises:
            ConfigError: an argument cannot be used.
            TopicNotFoundError: the trace topic does not exist; nothing has been traced yet.
            MessageDecodeError: a record is damaged.
            BrokersFailedError: some brokers did not answer; `result` has the records of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """
        try:
            found = await _query(self._usable(), trace_topic, message_id)
        except BrokersFailedError as error:
            error.result = _records(error.result, message_id)
            raise
        return _records(found, message_id)


# --- steps ---------------------------------------------------------------------------------------------


def check_key(key: object) -> None:
    """Refuse what can be no key of a message.

    Raises:
        ConfigError: it is empty or has spaces.
    """
    if not isinstance(key, str) or key.strip() == "" or " " in key:
        raise ConfigError(f"a key must be non-empty text without spaces, not {key!r:.100}")


def _check_tags(tags: object) -> None:
    if tags is not None and not isinstance(tags, str):
        raise ConfigError(f'tags must be text such as "created || paid", not {tags!r:.100}')


def _span(begin: int | datetime, end: int | datetime | None) -> tuple[int, int]:
    first = checked_moment("begin", begin)
    last = _ALL_TIME if end is None else checked_moment("end", end)
    if last < first:
        raise ConfigError(f"end must not be before begin: {end!r} is before {begin!r}")
    return first, last


def _records(messages: Iterable[MessageExt], message_id: str) -> tuple[TraceRecord, ...]:
    """The trace records of a message, sorted by time, and those of the calls of listeners that it was part of."""
    records = [each for message in messages for each in decode_traces(message.body)]
    requests = {each.request_id for each in records if each.request_id and _is_about(each, message_id)}
    chosen = [each for each in records if _is_about(each, message_id) or each.request_id in requests]
    return tuple(sorted(chosen, key=lambda each: each.timestamp or math.inf))


def _is_about(record: TraceRecord, message_id: str) -> bool:
    return message_id in record.message_id.split(",") or message_id in (record.keys or "").split()


async def _query(
    servers: Servers, topic: str, key: str, *, begin: int = 0, end: int = _ALL_TIME, unique: bool = False
) -> tuple[MessageExt, ...]:
    """Messages with a key, or with a unique id, from all masters that hold the topic."""
    check_key(key)
    masters = await servers.masters_of(topic)

    async def ask(name: str, address: str) -> list[MessageExt]:
        return await query_api.query_messages(
            servers.client.pool,
            address,
            topic,
            key,
            begin=begin,
            end=end,
            count=_QUERIED,
            unique=unique,
            broker_name=name,
            timeout=servers.timeout,
        )

    def matches(message: MessageExt) -> bool:
        """Whether a message really has the key: brokers compare only hashes."""
        if message.topic != topic:
            return False
        return message.message_id == key if unique else key in message.keys or message.message_id == key

    def combine(found: dict[str, list[MessageExt]]) -> tuple[MessageExt, ...]:
        return _by_store_time(message for each in found.values() for message in each if matches(message))

    return await servers.each(masters, ask, combine, doing=f"looking for {key:.100} in {topic}")


async def _by_time(
    servers: Servers, topic: str, first: int, last: int, count: int, tags: str | None
) -> tuple[MessageExt, ...]:
    route = await servers.route(topic)
    queues = {each.broker_name: each.read_queue_nums for each in route.queue_datas}
    masters = {
        name: address for name, address in servers.masters_in(topic, route.broker_datas).items() if queues.get(name)
    }

    async def ask(name: str, address: str) -> list[MessageExt]:
        found: list[MessageExt] = []
        until = last
        for number in range(queues[name]):
            queue = MessageQueue(topic, name, number)
            pool, timeout = servers.client.pool, servers.timeout
            least, end = await bounds(servers, address, queue)
            start = await offset_api.search_offset(pool, address, queue, first, timeout=timeout) if first else least
            part = await read(servers, address, queue, max(start, least), end, count + 1, tags=tags, until=until)
            # If all messages of a queue are older, brokers of 4.x return the offset of the last one.
            found += [each for each in part if each.store_timestamp >= first]
            if len(found) > count:  # keep no more than needed, however many queues there are
                found = list(_by_store_time(found)[:count])
                until = min(until, found[-1].store_timestamp)
        return found

    def combine(found: dict[str, list[MessageExt]]) -> tuple[MessageExt, ...]:
        return _by_store_time(message for each in found.values() for message in each)[:count]

    return await servers.each(masters, ask, combine, doing=f"reading {topic}")


def _by_store_time(messages: Iterable[MessageExt]) -> tuple[MessageExt, ...]:
    return tuple(sorted(messages, key=lambda each: (each.store_timestamp, each.queue, each.queue_offset)))


async def _broker_at(servers: Servers, host: str) -> tuple[str, str] | None:
    """The name and the address of the broker that stored a message; None if it is not registered."""
    wanted = servers.mapped(host)
    if wanted is not None and (name := servers.name_of(await servers.cluster_info(), wanted)) is not None:
        return name, wanted
    return None


async def _broker_of(servers: Servers, message: MessageExt) -> tuple[str, str] | None:
    """The same for a message that was read from it."""
    if message.broker_name:
        return message.broker_name, await servers.one(message.broker_name)
    return await _broker_at(servers, message.store_host)
