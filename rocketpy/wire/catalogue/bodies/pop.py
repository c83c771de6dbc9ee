"""Bodies of pop consumption (5.x): acknowledging many messages, who consumes which queue, and how.

The last three classes are bodies of messages that a broker writes to its revive topic, so that what is not
acknowledged in time comes again; no client sees them. Their one-letter names are Java's.
"""

from __future__ import annotations

from rocketpy.errors import RemoteProtocolError
from rocketpy.message import MessageQueue
from rocketpy.wire.enums import MessageModel, MessageRequestMode
from rocketpy.wire.json_body import Body, Int32, body, member

__all__ = [
    "AckMsg",
    "BatchAck",
    "BatchAckMessageRequestBody",
    "BatchAckMsg",
    "MessageQueueAssignment",
    "PopCheckPoint",
    "QueryAssignmentRequestBody",
    "QueryAssignmentResponseBody",
    "bits_of",
    "indices_of",
]

_MAX_BITS = 64 * 1024


def bits_of(indices: set[int]) -> bytes:
    """A set of small numbers as Java's BitSet writes it: the lowest bit of the first byte is 0."""
    found = bytearray(max(indices, default=-1) // 8 + 1)
    for index in indices:
        found[index // 8] |= 1 << index % 8
    return bytes(found)


def indices_of(bits: bytes) -> set[int]:
    """The numbers whose bits are set.

    Raises:
        RemoteProtocolError: there are more than a pop has messages: a set takes hundreds of times the memory.
    """
    if len(bits) > _MAX_BITS // 8:
        raise RemoteProtocolError(f"a set of {len(bits) * 8} bits, there are at most {_MAX_BITS}")
    return {number for number in range(len(bits) * 8) if bits[number // 8] >> number % 8 & 1}


@body
class BatchAck(Body):
    """Messages of one pop from one queue that are acknowledged together."""

    consumer_group: str | None = member(default=None, name="c", also=("consumerGroup",))
    topic: str | None = member(default=None, name="t", also=("topic",))
    retry: str | None = member(default=None, name="r", also=("retry",))
    """"1" for messages of the retry topic, "0" for others."""
    start_offset: int = member(default=0, name="so", also=("startOffset",))
    queue_id: Int32 = member(default=0, name="q", also=("queueId",))
    revive_queue_id: Int32 = member(default=0, name="rq", also=("reviveQueueId",))
    pop_time: int = member(default=0, name="pt", also=("popTime",))
    invisible_time: int = member(default=0, name="it", also=("invisibleTime",))
    bit_set: bytes | None = member(default=None, name="b", also=("bitSet",))
    """Which of the messages, counted from `start_offset`; see `bits_of`."""


@body
class BatchAckMessageRequestBody(Body):
    """The body of BATCH_ACK_MESSAGE."""

    broker_name: str | None = None
    acks: list[BatchAck] | None = None


@body
class QueryAssignmentRequestBody(Body):
    """Ask which queues a client shall consume, when the broker shares them out."""

    topic: str | None = None
    consumer_group: str | None = None
    client_id: str | None = None
    strategy_name: str | None = None
    message_model: MessageModel | None = None


@body
class MessageQueueAssignment(Body):
    """A queue (-1 for all of them) and how to consume it."""

    message_queue: MessageQueue | None = None
    mode: MessageRequestMode = MessageRequestMode.PULL
    attachments: dict[str, str] | None = None


@body
class QueryAssignmentResponseBody(Body):
    """The queues of one client."""

    message_queue_assignments: list[MessageQueueAssignment] = member(factory=list)


# --- bodies of messages in the revive topic ------------------------------------------------------------


@body
class PopCheckPoint(Body):
    """Messages that were handed out, and until when; message tag "ck"."""

    start_offset: int = member(default=0, name="so", also=("startOffset",))
    pop_time: int = member(default=0, name="pt", also=("popTime",))
    invisible_time: int = member(default=0, name="it", also=("invisibleTime",))
    bit_map: Int32 = member(default=0, name="bm", also=("bitMap",))
    num: Int32 = member(default=0, name="n", also=("num",))
    queue_id: Int32 = member(default=0, name="q", also=("queueId",))
    topic: str | None = member(default=None, name="t", also=("topic",))
    consumer_group: str | None = member(default=None, name="c", also=("consumerGroup",))
    revive_offset: int = member(default=0, name="ro", also=("reviveOffset",))
    revive_time: int = 0
    queue_offset_diff: list[Int32] | None = member(default=None, name="d", also=("queueOffsetDiff",))
    broker_name: str | None = member(default=None, name="bn", also=("brokerName",))
    re_put_times: str | None = member(default=None, name="rp", also=("rePutTimes",))


@body
class AckMsg(Body):
    """One message was acknowledged; message tag "ack"."""

    ack_offset: int = member(default=0, name="ao", also=("ackOffset",))
    start_offset: int = member(default=0, name="so", also=("startOffset",))
    consumer_group: str | None = member(default=None, name="c", also=("consumerGroup",))
    topic: str | None = member(default=None, name="t", also=("topic",))
    queue_id: Int32 = member(default=0, name="q", also=("queueId",))
    pop_time: int = member(default=0, name="pt", also=("popTime",))
    broker_name: str | None = member(default=None, name="bn", also=("brokerName",))


@body
class BatchAckMsg(AckMsg):
    """Several were; message tag "bAck"."""

    ack_offset_list: list[int] = member(factory=list, name="aol", also=("ackOffsetList",))
