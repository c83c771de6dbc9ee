"""What the calls of Admin about clients return. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import ClassVar

import attrs

from rocketpy.message import MessageQueue
from rocketpy.reprs import Short
from rocketpy.wire.enums import MessageModel

__all__ = [
    "ConnectedClient",
    "ConnectedConsumers",
    "ConsumerState",
    "DirectConsumption",
    "DirectOutcome",
    "GroupSubscription",
    "MemberOffset",
    "MessageTrack",
    "QueueState",
    "TopicState",
    "TrackStatus",
]


@attrs.frozen(kw_only=True, repr=False)
class ConnectedClient(Short):
    """A producer or consumer that is connected to a broker."""

    client_id: str
    address: str
    """Host and port, as the broker sees them."""
    group: str
    language: str
    """The language of its client library, such as PYTHON or JAVA."""
    version: str
    """The version of the protocol that it speaks, such as "5.3.3"; "" if it is not known."""
    brokers: tuple[str, ...] = ()
    """The names of the brokers that it is connected to, sorted."""
    last_heartbeat_at: datetime | None = None
    """When its last heartbeat arrived; None from calls that do not return it."""


@attrs.frozen(kw_only=True, repr=False)
class GroupSubscription(Short):
    """The subscription of a group to a topic."""

    topic: str
    expression: str
    """Tags, such as "created || paid", or an SQL92 expression; "*" for all messages."""
    is_sql: bool = False


@attrs.frozen(kw_only=True, repr=False)
class ConnectedConsumers(Short):
    """The connected members of a consumer group."""

    group: str
    clients: tuple[ConnectedClient, ...]
    """Sorted by client id."""
    subscriptions: tuple[GroupSubscription, ...]
    """Sorted by topic, including the retry topic of the group."""
    message_model: MessageModel | None
    """Whether the members share the messages, or each member gets all of them; None if no member is connected."""
    is_push: bool
    """Whether they are push consumers."""
    consume_from_where: str | None
    """Where the group starts in a queue in which it has no offset; None if no member is connected."""


@attrs.frozen(kw_only=True, repr=False)
class QueueState(Short):
    """The state of a queue that a consumer has."""

    queue: MessageQueue
    commit_offset: int
    """The offset that is committed, or will be; -1 for none."""
    cached_messages: int
    """Messages that were pulled and are not consumed yet."""
    cached_mib: int
    """Their size, in whole mebibytes."""
    locked: bool
    """Whether the consumer holds the lock on the queue, which it needs to consume in order."""
    dropped: bool
    """Whether the consumer is giving the queue up."""
    last_pull_at: datetime | None
    last_consume_at: datetime | None


@attrs.frozen(kw_only=True, repr=False)
class TopicState(Short):
    """The rates and times of a consumer in one topic."""

    topic: str
    pull_time: float
    """Seconds that a pull takes on average."""
    pull_rate: float
    """Messages a second that are pulled."""
    consume_time: float
    """Seconds that a message takes in the listener on average."""
    consume_rate: float
    """Messages a second that are consumed successfully."""
    failure_rate: float
    """Messages a second for which the listener fails."""
    failed: int
    """Messages for which the listener failed in the last hour."""


@attrs.frozen(kw_only=True, repr=False)
class ConsumerState(Short):
    """The state of a consumer, as the consumer reports it."""

    _shown_first: ClassVar[tuple[str, ...]] = ("group", "client_id", "queues", "topics")

    group: str
    client_id: str
    started_at: datetime | None
    subscriptions: tuple[GroupSubscription, ...]
    queues: tuple[QueueState, ...]
    """The queues of the consumer, sorted."""
    topics: tuple[TopicState, ...]
    """Sorted by topic."""
    settings: Mapping[str, str]
    """Its settings and figures as text, under the names that its client library uses."""
    stacks: str | None = None
    """The stacks of its threads and tasks, if they were requested."""


@attrs.frozen(kw_only=True, repr=False)
class MemberOffset(Short):
    """The offset of a member of a group in a queue."""

    client_id: str
    queue: MessageQueue
    offset: int


class DirectOutcome(Enum):
    """The outcome of consuming one message directly."""

    SUCCESS = "CR_SUCCESS"
    LATER = "CR_LATER"
    """The listener asked for a retry."""
    ROLLBACK = "CR_ROLLBACK"
    COMMIT = "CR_COMMIT"
    EXCEPTION = "CR_THROW_EXCEPTION"
    """The listener raised an exception; see `remark`."""
    NOTHING = "CR_RETURN_NULL"
    """The listener returned nothing, although it must return a value."""


@attrs.frozen(kw_only=True, repr=False)
class DirectConsumption(Short):
    """The result of having a consumer consume one message directly."""

    outcome: DirectOutcome | None
    """None if the client did not report it."""
    remark: str
    """What went wrong; "" if nothing went wrong."""
    seconds: float
    """How long the listener took."""
    orderly: bool = False


class TrackStatus(Enum):
    """What a group has done with a message."""

    CONSUMED = "consumed"
    FILTERED = "filtered"
    """Its offset is after the message, but the message does not have the tags to which it subscribes."""
    NOT_CONSUMED = "not consumed"
    """A member is connected, and the offset of the group is not after the message."""
    PULLED = "pull"
    """Its members are pull consumers, which may read from any offset, so the committed one says nothing here."""
    BROADCAST = "broadcast"
    """It uses broadcasting, in which each member keeps its own offsets."""
    OFFLINE = "offline"
    """No member is connected, and the offset of the group is not after the message."""
    UNKNOWN = "unknown"
    """The broker refused or did not answer; see `error`."""


@attrs.frozen(kw_only=True, repr=False)
class MessageTrack(Short):
    """What one group has done with a message."""

    group: str
    status: TrackStatus
    error: Exception | None = None
    """Why the status is not known."""
