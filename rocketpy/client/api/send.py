"""What an answer to a send says, sending back what could not be consumed, and recalling a message.

A producer fills templates and scans the answers that it knows; what is not a plain success comes here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rocketpy.client.call import ask, call, header_of
from rocketpy.client.call import request as plain_request
from rocketpy.errors import BrokerError
from rocketpy.message import MessageQueue
from rocketpy.results import SendResult, SendStatus
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.headers.send import (
    ConsumerSendMsgBackRequestHeader,
    RecallMessageRequestHeader,
    RecallMessageResponseHeader,
    SendMessageResponseHeader,
)

if TYPE_CHECKING:
    from rocketpy.remoting.pool import ConnectionPool
    from rocketpy.wire.command import RemotingCommand

__all__ = ["recall_message", "send_back", "send_result"]

STATUS_OF_CODE: dict[int, SendStatus] = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}
"""Answers that say that the message is stored."""


def send_result(answer: RemotingCommand, address: str, topic: str, broker_name: str, message_id: str) -> SendResult:
    """What an answer to a send says.

    Raises:
        BrokerError: the broker did not store the message.
        RemoteProtocolError: the answer is not usable.
    """
    status = STATUS_OF_CODE.get(answer.code)
    if status is None:
        raise BrokerError.for_code(answer.code, answer.remark, address=address, doing=f"a message for {topic}")
    header = header_of(SendMessageResponseHeader, answer, address)
    return SendResult(
        status=status,
        message_id=message_id,
        offset_message_id=header.msg_id,
        queue=MessageQueue(topic, broker_name, header.queue_id),
        queue_offset=header.queue_offset,
        transaction_id=header.transaction_id,
        region_id=answer.ext_fields.get("MSG_REGION") or "DefaultRegion",
        trace_on=answer.ext_fields.get("TRACE_ON") != "false",
        recall_handle=header.recall_handle or None,
    )


async def recall_message(
    pool: ConnectionPool,
    address: str,
    header: RecallMessageRequestHeader,
    *,
    timeout: float,
    on_answer: Callable[[RemotingCommand], object] | None = None,
) -> str:
    """Recall a message before it is due. Returns its unique id. `on_answer` sees the answer, whatever its code is.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: no answer; whether the message is recalled is unknown.
    """
    command = plain_request(RequestCode.RECALL_MESSAGE, header)
    answer = await call(pool, address, command, timeout=timeout)
    if on_answer is not None:
        on_answer(answer)
    if answer.code != ResponseCode.SUCCESS:
        doing = f"recalling a message of {header.topic}"
        raise BrokerError.for_code(answer.code, answer.remark, address=address, doing=doing)
    return header_of(RecallMessageResponseHeader, answer, address).msg_id


async def send_back(
    pool: ConnectionPool, address: str, header: ConsumerSendMsgBackRequestHeader, *, timeout: float
) -> None:
    """Give a message back to the master of the broker it came from, to get it again later.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    command = plain_request(RequestCode.CONSUMER_SEND_MSG_BACK, header)
    await ask(pool, address, command, timeout=timeout, doing=f"sending a message back for {header.group}")
