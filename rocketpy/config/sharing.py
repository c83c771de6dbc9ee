"""The settings of consumers that share queues with their group. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, ClassVar

import attrs

from rocketpy.config.checks import (
    by_name,
    consume_timestamp,
    folder_or_none,
    function_or_none,
    group_name,
    member,
    offset_storage_or_none,
    one_of_or_function,
    seconds,
)
from rocketpy.config.strategy_names import AVERAGELY, STRATEGY_NAMES
from rocketpy.config.tracing import TracedConfig
from rocketpy.durations import duration
from rocketpy.message import MessageQueue
from rocketpy.serialization.content_types import OwnSerializers, own_serializers
from rocketpy.wire.enums import ConsumeFromWhere, MessageModel

__all__ = ["SharingConfig"]


_STARTS = {
    "earliest": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    "first": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    "latest": ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
    "last": ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
    "timestamp": ConsumeFromWhere.CONSUME_FROM_TIMESTAMP,
}


def _message_model(value: MessageModel | str) -> MessageModel:
    return by_name(MessageModel, value)


def _consume_from_where(value: ConsumeFromWhere | str) -> ConsumeFromWhere:
    return by_name(ConsumeFromWhere, value, _STARTS)


@attrs.frozen(kw_only=True, repr=False)
class SharingConfig(TracedConfig):
    """The settings of consumers that share queues: start offset, allocation strategy, offset store and hooks."""

    _shown_first: ClassVar[tuple[str, ...]] = ("group",)

    serializers: OwnSerializers = attrs.field(default=(), converter=own_serializers, metadata={"java": None})
    """Serializers of your own, one or a list, which decode the `value` of messages with their content types. Those of
    msgpack, json, string and binary are built in; to change the bounds of one of them, give it here."""
    group: str = attrs.field(validator=group_name, metadata={"java": "consumerGroup"})
    """Name of the consumer group. Its members share the messages, except those of queues that a `LitePullConsumer` has
    assigned to itself."""
    message_model: MessageModel = attrs.field(
        default=MessageModel.CLUSTERING,
        converter=_message_model,
        validator=member(MessageModel, "clustering", "broadcasting"),
        metadata={"java": "messageModel"},
    )
    """Whether the members of the group share the messages ("clustering") or each gets all of them ("broadcasting"). A
    `MessageModel` may be given too."""
    consume_from_where: ConsumeFromWhere = attrs.field(
        default=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        converter=_consume_from_where,
        validator=member(ConsumeFromWhere, "earliest", "latest", "timestamp"),
        metadata={"java": "consumeFromWhere"},
    )
    """Where a group starts in a queue for which it has no offset yet: "earliest", "latest" or "timestamp". A
    `ConsumeFromWhere` may be given too."""
    consume_timestamp: str | int | datetime | None = attrs.field(
        default=None, validator=consume_timestamp, metadata={"java": "consumeTimestamp"}
    )
    """Where "timestamp" means: a datetime with a time zone, milliseconds since 1970, or, as in Java, local time as a
    text, yyyyMMddHHmmss. None: half an hour before the consumer starts."""
    allocate_strategy: str | Callable[[Any], Iterable[MessageQueue]] = attrs.field(
        default=AVERAGELY,
        validator=one_of_or_function(*STRATEGY_NAMES),
        metadata={"java": "allocateMessageQueueStrategy"},
    )
    """How the queues of a subscribed topic are shared out: "averagely", "by_circle", "consistent_hash", a strategy such
    as `AllocateByMachineRoom`, or a function. All consumers of a group must use the same one."""
    offset_store: Any = attrs.field(default=None, validator=offset_storage_or_none, metadata={"java": "offsetStore"})
    """Where to keep offsets: an object with the methods `read` and `write` of `OffsetStorage`. None: on the brokers, or
    when broadcasting in a file."""
    local_offset_store_dir: str | None = attrs.field(default=None, converter=folder_or_none, metadata={"java": None})
    """Folder for the offset files of broadcasting consumers (in Java the system property
    rocketmq.client.localOffsetStoreDir). None: .rocketmq_offsets in the home folder."""
    on_assigned: Callable[..., Any] | None = attrs.field(
        default=None, validator=function_or_none("a tuple of queues"), metadata={"java": "messageQueueListener"}
    )
    """A plain or async function, called with a tuple of the queues (`MessageQueue`) that this consumer has just got,
    before anything is pulled from them. For each queue, `on_assigned` and `on_revoked` alternate, in this order."""
    on_revoked: Callable[..., Any] | None = attrs.field(
        default=None, validator=function_or_none("a tuple of queues"), metadata={"java": None}
    )
    """A plain or async function, called with a tuple of the queues that are taken from this consumer, or that it gives
    up as it closes: once for each time that `on_assigned` was called with them. Until it returns they still belong to
    this consumer, but are no longer pulled; only a lost lock or a reset calls it afterwards. Where messages are
    consumed in order, it is called once the listener is out of the queue, before the last commit and the unlocking."""
    rebalance_hook_timeout: float = attrs.field(
        default=3.0, converter=duration, validator=seconds(0.001, 60), metadata={"java": None}
    )
    """Seconds that a call of `on_assigned` or `on_revoked` may take; after that, the consumer continues without waiting
    for it. While a consumer closes, it is at most half of `close_timeout`."""
    rebalance_interval: float = attrs.field(
        default=20.0,
        converter=duration,
        validator=seconds(0.01, 3600),
        metadata={"java": "waitInterval", "scale": 1000},
    )
    """Seconds between two regular rebalances; known changes lead to a rebalance at once."""
    pull_time_delay_when_exception: float = attrs.field(
        default=3.0,
        converter=duration,
        validator=seconds(0.001, 600),
        metadata={"java": "pullTimeDelayMillsWhenException", "scale": 1000},
    )
    """Seconds to wait before a queue is pulled again after an error."""
    start_timeout: float = attrs.field(
        default=5.0, converter=duration, validator=seconds(0.001, 600), metadata={"java": None}
    )
    """Seconds that starting may take. Queues of a broker that does not answer by then are taken once it does."""

    @property
    def uses_threads(self) -> bool:
        """Whether calls wait for threads, not only for brokers: for a file of offsets, or functions of the user's."""
        broadcasts = self.message_model is MessageModel.BROADCASTING
        functions = (self.offset_store, self.on_assigned, self.on_revoked)
        return broadcasts or not isinstance(self.allocate_strategy, str) or any(each is not None for each in functions)
