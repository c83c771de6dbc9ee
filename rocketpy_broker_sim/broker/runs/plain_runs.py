"""Plain sends, a run at a time: checked, stored and answered together.

Plain are sends whose header looks like the one before (`wire.send_layout`), whose topic is there, and whose properties
hold nothing that a stage of the put pipeline watches, or only that they are half messages. All that can be asked of
them is asked of a run at once. Where anything is out of the ordinary the run is left to the pipeline, which does the
same for each message, or says what is wrong with it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, NamedTuple

from rocketpy.errors import BrokerError, StoreError
from rocketpy.message import PropertyName
from rocketpy.wire.codes import CURRENT_VERSION, RESPONSE_FLAG, LanguageCode
from rocketpy.wire.frame import FrameDecoder
from rocketpy.wire.names import RETRY_PREFIX, TRANSACTION_HALF_TOPIC
from rocketpy.wire.properties import find_property
from rocketpy.wire.serialize import decode_command
from rocketpy_broker_sim.broker.putting.store_stage import packed_address
from rocketpy_broker_sim.broker.replies import without_body
from rocketpy_broker_sim.broker.send_checks import CLIENT_FLAGS
from rocketpy_broker_sim.broker.transactions.half import HALF_QUEUE
from rocketpy_broker_sim.broker.transactions.half_texts import HalfTexts
from rocketpy_broker_sim.store.put_result import IncomingMessage, MessageRun, PlacedRun, PutMessageStatus

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy.wire.headers.send import SendMessageRequestHeader
    from rocketpy.wire.send_layout import LaidOutSend
    from rocketpy_broker_sim.broker.views import SendView

__all__ = ["PlainReplies", "PlainRuns"]

_LEAD = struct.Struct(">ii")
_POSITION = (1 << 64) - 1
_UNIQUE_KEY = PropertyName.UNIQUE_KEY.encode()
_UNIQUE_START = _UNIQUE_KEY + b"\x01"
_WAIT = b"WAIT\x01"
_WAIT_TRUE = b"WAIT\x01true\x02"
_PREPARED = f"{PropertyName.TRANSACTION_PREPARED}\x01".encode()
_SEPARATOR = 2


class _Goal(NamedTuple):
    """Where messages are stored, and with which properties."""

    topic: str
    """The topic that they are stored in; that of half messages for halves."""
    queue_ids: Sequence[int]
    """Number of the queue of each message."""
    properties: Sequence[bytes]
    """Encoded properties of each message, as they are stored."""


class PlainRuns:
    """Takes runs of plain sends.

    Args:
        broker: says where messages may go, and takes them.
    """

    def __init__(self, broker: SendView) -> None:
        self._broker = broker
        self._watched = tuple(f"{name}\x01".encode() for name in sorted(broker.pipeline.watched))
        self._halves = HalfTexts(broker.pipeline.watched)
        self._answers = _AnswerTemplate(b"", {})

    def take(self, connection: Connection, requests: Sequence[LaidOutSend]) -> PlainReplies | None:
        """Put sends of one layout. None, and nothing is done, unless they are plain."""
        broker = self._broker
        header = requests[0].layout.header
        texts = [request.properties for request in requests]
        keys = [_unique_key(text) for text in texts]
        queue_ids = [request.queue_id for request in requests]
        if not self._may_go(header, queue_ids) or None in keys:
            return None
        goal = self._goal(header, texts, queue_ids)
        if goal is None or broker.refusal(wait=True) is not None:
            return None
        if not all(request.body for request in requests):
            return None
        place = self._place_one if len(requests) == 1 else self._place_run
        placed = place(connection, header, requests, goal)
        if placed is None:
            return None
        return PlainReplies(connection, requests, self._frames(requests, placed, keys), placed.end)

    def _goal(self, header: SendMessageRequestHeader, texts: Sequence[bytes], queue_ids: Sequence[int]) -> _Goal | None:
        """Where the messages are stored, and with which properties; None unless they are plain."""
        closed = [text if text[-1] == _SEPARATOR else text + b"\x02" for text in texts]
        added = self._broker.identity.added_properties.encode()
        joined = b"".join(closed)
        if joined.count(_WAIT) != joined.count(_WAIT_TRUE):
            return None
        if not any(map(joined.__contains__, self._watched)):
            return _Goal(header.topic, queue_ids, [text + added for text in closed])
        if _PREPARED not in joined or not self._takes_halves(header, set(queue_ids)):
            return None
        halves = self._halves.stored(closed, added, header.topic.encode(), queue_ids)
        return None if halves is None else _Goal(TRANSACTION_HALF_TOPIC, [HALF_QUEUE] * len(texts), halves)

    def _takes_halves(self, header: SendMessageRequestHeader, queue_ids: Iterable[int]) -> bool:
        """Whether half messages may go there: there are, or can be made, the queues for their commits."""
        broker = self._broker
        if not broker.checks.takes_transactions or (header.reconsume_times or 0) > 0:
            return False
        goals = (IncomingMessage(header.topic, queue_id, b"", b"") for queue_id in queue_ids)
        try:
            return all(broker.store.open_queue(goal) is None for goal in goals)
        except StoreError:  # the pipeline refuses each message by itself
            return False

    def _place_one(
        self,
        connection: Connection,
        header: SendMessageRequestHeader,
        requests: Sequence[LaidOutSend],
        goal: _Goal,
    ) -> PlacedRun | None:
        """Columns of one are dearer than one message."""
        request = requests[0]
        message = IncomingMessage(
            goal.topic,
            goal.queue_ids[0],
            request.body,
            goal.properties[0],
            header.flag,
            header.sys_flag & CLIENT_FLAGS,
            request.born_timestamp,
            packed_address(connection.address),
            self._broker.identity.store_host,
            header.reconsume_times or 0,
        )
        try:
            result = self._broker.store.put(message)
        except StoreError:  # the pipeline refuses it; what was placed before keeps its answer
            return None
        if result.status is not PutMessageStatus.PUT_OK:
            return None
        return PlacedRun((result.physical_offset,), (result.queue_offset,), result.end)

    def _place_run(
        self,
        connection: Connection,
        header: SendMessageRequestHeader,
        requests: Sequence[LaidOutSend],
        goal: _Goal,
    ) -> PlacedRun | None:
        run = MessageRun(
            goal.topic,
            header.flag,
            header.sys_flag & CLIENT_FLAGS,
            packed_address(connection.address),
            self._broker.identity.store_host,
            header.reconsume_times or 0,
            goal.queue_ids,
            [request.body for request in requests],
            goal.properties,
            [request.born_timestamp for request in requests],
        )
        return self._broker.store.put_run(run)

    def _may_go(self, header: SendMessageRequestHeader, queue_ids: Sequence[int]) -> bool:
        """Whether these queues of the topic are there and may be written."""
        if header.batch or header.topic.startswith(RETRY_PREFIX):
            return False
        try:
            topic = self._broker.checks.topic(header)
        except BrokerError:
            return False
        return topic is not None and max(queue_ids) < max(topic.write_queue_nums, topic.read_queue_nums)

    def _frames(self, requests: Sequence[LaidOutSend], placed: PlacedRun, keys: Sequence[bytes | None]) -> list[bytes]:
        identity = self._broker.identity
        if requests[0].is_oneway:
            return []
        if not self._answers.is_for(identity.store_host, identity.send_fields):
            self._answers = _AnswerTemplate(identity.store_host, identity.send_fields)
        return self._answers.frames(requests, placed, keys)


def _unique_key(text: bytes) -> bytes | None:
    """The id of a message in its properties, None without one, or with one that no client makes."""
    end = text.find(b"\x02")
    if end > 0 and text.startswith(_UNIQUE_START) and text.rfind(_UNIQUE_KEY) == 0:
        key = text[len(_UNIQUE_START) : end]
    else:
        key = find_property(text, _UNIQUE_KEY) or b""
    return key if key and b"\x01" not in key else None


class _AnswerTemplate:
    """Answers to sends in JSON, byte by byte as `encode_command` writes them."""

    def __init__(self, store_host: bytes, fields: dict[str, str]) -> None:
        self._store_host = store_host
        self._fields = fields
        more = "".join(f",{encode_basestring(key)}:{encode_basestring(value)}" for key, value in fields.items())
        text = (
            f'{{"code":0,"extFields":{{"msgId":"{store_host.hex().upper()}@@","queueId":"@@","queueOffset":"@@",'
            f'"transactionId":"@@"{more}}},"flag":{RESPONSE_FLAG},"language":"{LanguageCode.PYTHON.name}",'
            f'"opaque":@@,"serializeTypeCurrentRPC":"JSON","version":{CURRENT_VERSION}}}'
        )
        parts = text.replace("%", "%%").split("@@")
        kinds = ("%016X", "%d", "%d", "%b", "%d", "")
        self._template = "".join(part + kind for part, kind in zip(parts, kinds, strict=True)).encode()

    def is_for(self, store_host: bytes, fields: dict[str, str]) -> bool:
        """Whether it was made for these."""
        return fields is self._fields and store_host == self._store_host

    def frames(self, requests: Sequence[LaidOutSend], placed: PlacedRun, keys: Sequence[bytes | None]) -> list[bytes]:
        """The answers to requests, in their order."""
        template, lead = self._template, _LEAD.pack
        frames: list[bytes] = []
        for request, position, offset, key in zip(requests, *placed[:2], keys, strict=True):
            header = template % (position & _POSITION, request.queue_id, offset, key, request.opaque)
            size = len(header)
            frames += (lead(4 + size, size), header)
        return frames


class PlainReplies:
    """The replies to a run of plain sends; see `replies.Replies`."""

    new_topic: str | None = None
    for_disk = True

    def __init__(
        self, connection: Connection, requests: Sequence[RemotingCommand], frames: list[bytes], position: int
    ) -> None:
        self.connection = connection
        self.position = position
        self._requests = requests
        self._frames = frames

    def __len__(self) -> int:
        """How many sends."""
        return len(self._requests)

    def send(self) -> None:
        """Let them go."""
        if self._frames:
            self.connection.send_answer_frames(len(self._requests), b"".join(self._frames))

    def send_instead(self, code: int, remark: str) -> None:
        """Tell the peer this instead."""
        for request in self._requests:
            self.connection.send_answer(request, request.answer(code, remark))

    def send_as(self, code: int) -> None:
        """Let them go with another code."""
        decoder = FrameDecoder()
        decoder.receive_data(b"".join(self._frames))
        for request, frame in zip(self._requests, decoder.frames(), strict=False):
            command = decode_command(frame)
            command.code = code
            self.connection.send_answer(request, command)

    def settle_down(self) -> None:
        """Forget the bodies of the requests: they are in the log."""
        self._requests = [without_body(request) for request in self._requests]
