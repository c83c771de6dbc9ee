"""Tables of offsets."""

from __future__ import annotations

from rocketpy.message import MessageQueue
from rocketpy.wire.bodies.topics import DataVersion
from rocketpy.wire.json_body import Body, Int32, body, member

__all__ = [
    "ConsumerOffsetSerializeWrapper",
    "DelayOffsetSerializeWrapper",
    "GetConsumerStatusBody",
    "MessageQueueForC",
    "OffsetMovedEvent",
    "OffsetSerializeWrapper",
    "QueryCorrectionOffsetBody",
    "ResetOffsetBody",
    "ResetOffsetBodyForC",
]


@body
class ConsumerOffsetSerializeWrapper(Body):
    """Where every group stands: "topic@group", then queue id, then offset. Also the file consumerOffset.json."""

    offset_table: dict[str, dict[Int32, int]] = member(factory=dict)
    data_version: DataVersion | None = None


@body
class DelayOffsetSerializeWrapper(Body):
    """How far each delay level has been delivered. Also the file delayOffset.json."""

    offset_table: dict[Int32, int] = member(factory=dict)
    data_version: DataVersion | None = None


@body
class QueryCorrectionOffsetBody(Body):
    """By queue id, the offset to go on from."""

    correction_offsets: dict[Int32, int] = member(factory=dict)


@body
class OffsetSerializeWrapper(Body):
    """Where a broadcasting consumer stands: the file offsets.json of its host."""

    offset_table: dict[MessageQueue, int] = member(factory=dict)


@body
class ResetOffsetBody(Body):
    """Where the queues of a topic are set to."""

    offset_table: dict[MessageQueue, int] = member(factory=dict)


@body
class MessageQueueForC(Body):
    """A queue and where it is set to."""

    topic: str
    broker_name: str
    queue_id: Int32
    offset: int = 0


@body
class ResetOffsetBodyForC(Body):
    """ResetOffsetBody for clients that cannot read a map with objects as keys."""

    offset_table: list[MessageQueueForC] = member(factory=list)


@body
class GetConsumerStatusBody(Body):
    """Where one client stands, or (gathered by the broker) every client of a group."""

    message_queue_table: dict[MessageQueue, int] = member(factory=dict)
    consumer_table: dict[str, dict[MessageQueue, int]] = member(factory=dict)


@body
class OffsetMovedEvent(Body):
    """What a 4.x broker writes to OFFSET_MOVED_EVENT when a group asks for what is gone."""

    consumer_group: str | None = None
    message_queue: MessageQueue | None = None
    offset_request: int = 0
    offset_new: int = 0
