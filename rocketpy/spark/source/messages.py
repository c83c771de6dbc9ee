"""A read of messages: what the driver plans and commits, and what tasks read. Not here: anything of Spark's."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

import attrs

from rocketpy.consumer.unwrapping import unwrapped
from rocketpy.errors import ConfigError, MessageDecodeError
from rocketpy.spark.collector import spare_collector
from rocketpy.spark.source.brokers import Brokers
from rocketpy.spark.source.clients import clients
from rocketpy.spark.source.offsets import OffsetRange
from rocketpy.spark.source.options import SourceOptions
from rocketpy.spark.source.planning import batch_ranges, shared_out
from rocketpy.spark.source.pulling import pulled, subscription_of
from rocketpy.wire.message_codec import decode_messages

if TYPE_CHECKING:
    from rocketpy.message import MessageExt

__all__ = ["MessageRead", "TaskRead", "read_messages"]


@attrs.frozen
class MessageRead:
    """One read, with its ranges fixed."""

    options: SourceOptions
    ranges: tuple[OffsetRange, ...]
    """One for each queue, empty ones too."""

    @classmethod
    def planned(cls, options: SourceOptions) -> MessageRead:
        """Fix the ranges.

        Raises:
            ConfigError: starts and ends do not fit the queues that there are.
            DataLossError: messages are gone, and that is an error.
            RocketMQError: name servers or brokers do not answer.
        """
        with clients().use(options.client) as client:
            return cls(options, tuple(batch_ranges(Brokers(client.trio_client, options), options)))

    def parts(self) -> list[OffsetRange]:
        """The ranges that tasks read; none of them is empty."""
        return shared_out(list(self.ranges), self.options)

    def commit(self) -> None:
        """Commit the ends of the ranges for the group.

        Raises:
            ConfigError: the read has no group, or a broker does not know it, as nothing was read from it yet, or
                ignores the offsets, as the group was reset and nothing was read since.
            RocketMQError: a broker does not answer, or refuses.
        """
        options, group = self.options, self.options.consumer_group
        if group is None:
            raise ConfigError("the RDD has no group to commit offsets for: give rdd the group")
        offsets = {each.queue: each.until for each in self.ranges}
        with clients().use(options.client) as client:
            done = Brokers(client.trio_client, options).commit(group, offsets)
        # A broker of which only empty ranges were planned was not asked for messages, so it need not know the group.
        left = [each for each in self.ranges if each.size and each.queue not in done]
        if left:
            raise ConfigError(
                f"the broker of {left[0].queue} does not know the group {group}, or the group was reset since it was "
                "read, so its offsets are not committed: commit after an action has read the messages"
            )


@attrs.frozen
class TaskRead:
    """What a task does with its ranges. It pickles."""

    options: SourceOptions

    def __call__(self, ranges: Iterable[OffsetRange]) -> Iterator[MessageExt]:
        """The messages of the ranges."""
        spare_collector()  # once the modules of a reader are there
        for each in ranges:
            yield from read_messages(each, self.options)


def read_messages(wanted: OffsetRange, options: SourceOptions) -> Iterator[MessageExt]:
    """The messages of a range, in the order of the queue.

    Raises:
        DataLossError: messages are gone, and that is an error.
        RocketMQError: a broker cannot be reached, does not answer, or refuses, after retries; or a message is damaged.
    """
    tags = subscription_of(wanted.queue.topic, options).tags_set
    with clients().use(options.client) as client, pulled(client.trio_client, wanted, options) as answers:
        for body in answers:
            messages = _decoded(body, wanted, tags)
            answers.settle()  # the caller may take its time with each message
            yield from messages


def _decoded(body: bytes, wanted: OffsetRange, tags: Collection[str | None]) -> list[MessageExt]:
    """The messages of one answer that are wanted."""
    queue, start, until = wanted
    try:
        messages = unwrapped(decode_messages(body, broker_name=queue.broker_name), start)
    except MessageDecodeError as error:
        error.add_note(f"while reading {wanted}")
        raise
    if messages and not (start <= messages[0].queue_offset and messages[-1].queue_offset < until):
        messages = [each for each in messages if start <= each.queue_offset < until]
    # Brokers compare hashes of tags, which different tags may share.
    return [each for each in messages if each.tags in tags] if tags else messages
