"""Replies of consumers to requests: SEND_REPLY_MESSAGE and SEND_REPLY_MESSAGE_V2. Plays ReplyMessageProcessor.

The broker pushes a reply to the very client that made the request, a producer whose id the reply has, and also stores
it if `storeReplyMessageEnable` is on. The answer reports the push: a reply that was pushed counts as delivered, even if
it cannot be stored. A stored reply keeps the compression flag, which Apache's broker drops.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rocketpy.errors import BrokerError
from rocketpy.logs import get_logger, quote
from rocketpy.message import PropertyName
from rocketpy.seams import wall_ms
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.send import ReplyMessageRequestHeader, SendMessageRequestHeader
from rocketpy.wire.properties import decode_properties, encode_properties
from rocketpy_broker_sim.broker.putting.put_pipeline import Put, StageOrder
from rocketpy_broker_sim.broker.putting.store_stage import packed_address
from rocketpy_broker_sim.broker.replies import NOTHING_PUT, without_body
from rocketpy_broker_sim.broker.send_checks import CLIENT_FLAGS, NEVER_STORED
from rocketpy_broker_sim.store.put_result import IncomingMessage, PutMessageStatus

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy_broker_sim.broker.views import ReplyView
    from rocketpy_broker_sim.store.put_result import PutMessageResult

__all__ = ["send_reply"]

log = get_logger(__name__)


def send_reply(broker: ReplyView, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
    """Push a reply to the client that made the request, and store it."""
    put = Put()
    try:
        header = _header(request)
        queue_id = broker.checks.queue_id(header, put)
    except BrokerError as exc:
        return request.answer(exc.code, exc.remark, dict(broker.identity.send_fields))
    if not broker.pushes.has_room(connection):
        remark = "[OVERLOAD]broker busy, slow down for a while: too many replies are being pushed"
        return request.answer(ResponseCode.SYSTEM_BUSY, remark, dict(broker.identity.send_fields))
    properties = decode_properties(header.properties or "")
    asker = properties.get(PropertyName.REPLY_TO_CLIENT)
    for name in (PropertyName.MSG_REGION, PropertyName.TRACE_SWITCH):
        properties[name] = broker.identity.added_property_map[name]
    if broker.config.store_reply_message_enable and request.body:  # no record is without a body
        _put(broker, connection, request, header, queue_id, properties, put)
    answer = _Answer(connection, request, queue_id, put, broker.identity.send_fields)
    command = _command(broker, connection, request, header, properties)
    done = partial(answer.pushed, asker)
    broker.pushes.push(connection, broker.producers.find_client(asker) if asker else None, command, done)
    if put.result is None or put.refusal is not None:
        answer.put_ended(None)
    else:
        broker.turn.add(answer)
    return None


def _header(request: RemotingCommand) -> SendMessageRequestHeader:
    if request.code == RequestCode.SEND_REPLY_MESSAGE:
        return SendMessageRequestHeader.from_ext(request.ext_fields)
    return SendMessageRequestHeader.from_short_ext(request.ext_fields)


def _put(
    broker: ReplyView,
    connection: Connection,
    request: RemotingCommand,
    header: SendMessageRequestHeader,
    queue_id: int,
    properties: dict[str, str],
    put: Put,
) -> None:
    """Put a reply into the store, ignoring any properties of delays and transactions."""
    kept = {name: value for name, value in properties.items() if name not in NEVER_STORED}
    put.wait = properties.get(PropertyName.WAIT, "true").lower() == "true"
    put.message = IncomingMessage(
        header.topic,
        queue_id,
        request.body,
        encode_properties(kept),
        header.flag,
        header.sys_flag & CLIENT_FLAGS,
        header.born_timestamp,
        packed_address(connection.address),
        broker.identity.store_host,
        header.reconsume_times or 0,
    )
    broker.pipeline.take([put], behind=StageOrder.HALF_MESSAGE)
    error = put.take_error()
    if error is not None or put.refusal is not None:
        log.warning("a reply from %s is not stored: %s", connection.address, quote(error or put.refusal))


def _command(
    broker: ReplyView,
    connection: Connection,
    request: RemotingCommand,
    header: SendMessageRequestHeader,
    properties: dict[str, str],
) -> RemotingCommand:
    """The request that pushes a reply to a client."""
    now = wall_ms()
    pushed = ReplyMessageRequestHeader(
        producer_group=header.producer_group,
        topic=header.topic,
        default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums,
        queue_id=header.queue_id,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        flag=header.flag,
        properties=encode_properties(properties | {PropertyName.PUSH_REPLY_TIME: str(now)}),
        reconsume_times=header.reconsume_times,
        unit_mode=bool(header.unit_mode),
        born_host=connection.address,
        store_host=broker.identity.address,
        store_timestamp=now,
    )
    return RemotingCommand(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, pushed.to_ext(), request.body)


class _Answer:
    """The answer to a reply, which is sent once the push has ended and the reply is stored as safely as configured.

    If the reply was put, this is among the replies of the turn (`broker.replies.Replies`).
    """

    __slots__ = (
        "_failure",
        "_fields",
        "_is_pushed",
        "_is_put",
        "_queue_id",
        "_result",
        "connection",
        "for_disk",
        "new_topic",
        "position",
        "request",
    )

    def __init__(
        self, connection: Connection, request: RemotingCommand, queue_id: int, put: Put, fields: dict[str, str]
    ) -> None:
        is_put = put.result is not None and put.result.status is PutMessageStatus.PUT_OK
        self.connection = connection
        self.request = without_body(request)
        self.position = put.result.end if put.result is not None and is_put else NOTHING_PUT
        self.for_disk = put.wait
        self.new_topic = put.new_topic
        self._queue_id = queue_id
        self._fields = fields
        self._result = put.result if is_put else None
        self._failure: str | None = None
        self._is_pushed = self._is_put = False

    def __len__(self) -> int:
        """One."""
        return 1

    def pushed(self, asker: str | None, failure: str | None) -> None:
        """Take the outcome of the push."""
        if failure is not None:
            self._failure = f"the reply was not pushed to {quote(asker or '')!r}: {failure}"
        if asker is None:
            self._failure = f"the reply has no property {PropertyName.REPLY_TO_CLIENT}, so no client gets it"
        self._is_pushed = True
        self._leave()

    def put_ended(self, result: PutMessageResult | None) -> None:
        """Where it is stored, None when it is not."""
        self._result = result
        self._is_put = True
        self._leave()

    def _leave(self) -> None:
        if not (self._is_pushed and self._is_put):
            return
        # A client that reads answers to sends expects an id and an offset, even if the reply is not stored.
        fields = {"msgId": "0", "queueId": str(self._queue_id), "queueOffset": "0"}
        if self._result is not None:
            fields |= {"msgId": self._result.offset_message_id, "queueOffset": str(self._result.queue_offset)}
        code = ResponseCode.SUCCESS if self._failure is None else ResponseCode.SYSTEM_ERROR
        self.connection.send_answer(self.request, self.request.answer(code, self._failure, fields | self._fields))

    # --- what the turn and the gate say ------------------------------------------------------------------

    def send(self) -> None:
        """Note that the reply is stored as safely as configured."""
        self.put_ended(self._result)

    def send_as(self, code: int) -> None:
        """Note that the reply is stored less safely than configured: it counts as sent once its client has it."""
        self.put_ended(self._result)

    def send_instead(self, code: int, remark: str) -> None:
        """Note that the reply is not stored."""
        log.warning("a reply from %s is not stored: %s", self.connection.address, remark)
        self.put_ended(None)

    def settle_down(self) -> None:
        """It keeps no body."""
