"""Recalling a message that is not due yet: RECALL_MESSAGE. Plays RecallMessageProcessor.

A recall is a message too. It goes into the same slot of the timer as the message that it recalls, which is then
skipped. So the answer says that the message will not be delivered, but not whether it was there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.errors import BrokerError, RemoteProtocolError
from rocketpy.message import PropertyName
from rocketpy.seams import wall_ms
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.headers.send import RecallMessageRequestHeader, RecallMessageResponseHeader
from rocketpy.wire.names import RETRY_PREFIX
from rocketpy.wire.recall_handle import RecallHandle
from rocketpy.wire.sysflag import Permission
from rocketpy_broker_sim.broker.putting.put_pipeline import Put, StageOrder
from rocketpy_broker_sim.broker.putting.store_stage import packed_address
from rocketpy_broker_sim.broker.timer.times import delete_key
from rocketpy_broker_sim.store.put_result import IncomingMessage

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.identity import Identity
    from rocketpy_broker_sim.broker.views import RecallView

__all__ = ["recall_handle", "recall_message"]

_TAG = "_RECALL_TAG_"
_BODY = b"0"


def recall_message(broker: RecallView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """Recall a message."""
    header = RecallMessageRequestHeader.from_ext(request.ext_fields)
    _check_allowed(broker)
    if header.topic not in broker.topics:
        remark = f"the topic {header.topic:.127} does not exist, so no message of it can be recalled"
        raise BrokerError.for_code(ResponseCode.TOPIC_NOT_EXIST, remark)
    handle = _checked_handle(broker, header)
    put = Put(_message(broker, connection, handle), _properties(header, handle))
    broker.pipeline.take([put], behind=StageOrder.CHECKS)
    broker.turn.rests_on(put)
    put.check()
    region = {"MSG_REGION": broker.config.region_id}
    if put.refusal is not None:
        code, why = put.refusal
        busy = code if code == ResponseCode.SERVICE_NOT_AVAILABLE else ResponseCode.SYSTEM_ERROR
        return request.answer(busy, f"the message is not recalled: {why}", region)
    return request.answer(ext_fields=RecallMessageResponseHeader(msg_id=handle.message_id).to_ext() | region)


def _check_allowed(broker: RecallView) -> None:
    """Raises BrokerError if messages may not be recalled."""
    config = broker.config
    if not config.recall_message_enable:
        remark = "messages cannot be recalled here (recallMessageEnable=false)"
        raise BrokerError.for_code(ResponseCode.NO_PERMISSION, remark)
    if wall_ms() < config.start_accept_send_request_time_stamp:
        remark = "the broker takes no messages yet (startAcceptSendRequestTimeStamp)"
        raise BrokerError.for_code(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
    if not Permission.is_writable(config.broker_permission) and not config.allow_recall_when_broker_not_writeable:
        remark = "the broker may not be written (allowRecallWhenBrokerNotWriteable=false)"
        raise BrokerError.for_code(ResponseCode.SERVICE_NOT_AVAILABLE, remark)


def _checked_handle(broker: RecallView, header: RecallMessageRequestHeader) -> RecallHandle:
    """The handle of a request.

    Raises:
        BrokerError: it is not valid, belongs to another topic or broker, or the message is already due.
    """
    try:
        handle = RecallHandle.decode(header.recall_handle)
    except RemoteProtocolError as exc:
        raise _illegal(str(exc)) from exc
    if handle.topic != header.topic:
        raise _illegal(f"it belongs to the topic {handle.topic:.127}, not to {header.topic:.127}")
    if handle.broker_name != broker.config.broker_name:
        raise _illegal(f"it belongs to the broker {handle.broker_name:.127}, and this is {broker.config.broker_name}")
    due = handle.timestamp
    left = int(due) - wall_ms() if due.isascii() and due.isdigit() and len(due) < 19 else 0
    if left <= 0:
        raise _illegal("the message is already due, or the handle has no valid time")
    if left >= broker.config.store.timer_max_delay_sec * 1000:
        raise _illegal("no message can be due so far in the future (timerMaxDelaySec)")
    return handle


def _illegal(why: str) -> BrokerError:
    remark = f"this handle cannot recall a message: {why}"
    return BrokerError.for_code(ResponseCode.ILLEGAL_OPERATION, remark)


def _message(broker: RecallView, connection: Connection, handle: RecallHandle) -> IncomingMessage:
    return IncomingMessage(
        handle.topic,
        0,
        _BODY,
        born_timestamp=wall_ms(),
        born_host=packed_address(connection.address),
        store_host=broker.identity.store_host,
    )


def _properties(header: RecallMessageRequestHeader, handle: RecallHandle) -> dict[str, str]:
    return {
        PropertyName.TAGS: _TAG,
        PropertyName.TIMER_DEL_UNIQUE_KEY: delete_key(handle.topic, handle.message_id),
        PropertyName.UNIQUE_KEY: handle.message_id,
        PropertyName.TIMER_DELIVER_MS: handle.timestamp,
        PropertyName.BORN_TIMESTAMP: str(wall_ms()),
        PropertyName.PRODUCER_GROUP: header.producer_group or "",
    }


def recall_handle(identity: Identity, put: Put) -> str | None:
    """The recall handle of a message that was put into the timer; None for any other."""
    properties = put.properties
    if not properties or PropertyName.TIMER_OUT_MS not in properties:
        return None
    topic = properties.get(PropertyName.REAL_TOPIC, "")
    if not topic or topic.startswith(RETRY_PREFIX):
        return None
    due = str(int(properties[PropertyName.TIMER_OUT_MS]) + 1)
    return RecallHandle(topic, identity.broker_name, due, properties.get(PropertyName.UNIQUE_KEY, "")).encode()
