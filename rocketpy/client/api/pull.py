"""Pulling the messages of one queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.client.api.call import call, header_of, request
from rocketpy.errors import BrokerError
from rocketpy.message import PropertyName
from rocketpy.results import PullResult, PullStatus
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.properties import encode_properties
from rocketpy.wire.stored_message import StoredMessage

if TYPE_CHECKING:
    from rocketpy.message import MessageExt
    from rocketpy.remoting.pool import ConnectionPool
    from rocketpy.wire.command import RemotingCommand

__all__ = ["pull_message", "pull_result"]

_STATUS: dict[int, PullStatus] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MSG,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MSG,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


async def pull_message(
    pool: ConnectionPool,
    address: str,
    header: PullMessageRequestHeader,
    *,
    broker_name: str,
    timeout: float,
    lite: bool = False,
) -> PullResult:
    """Ask for the messages of a queue from an offset on. The broker may hold the request until there are some.

    Args:
        broker_name: what the messages shall say where they come from.
        timeout: longer than the time for which the broker may hold the request.
        lite: by a lite pull consumer.

    Raises:
        BrokerError: the broker refuses.
        MessageDecodeError: a record is damaged; its `decoded` holds the messages before it.
        TransportError, RequestTimeoutError: it does not answer.
    """
    command = request(RequestCode.LITE_PULL_MESSAGE if lite else RequestCode.PULL_MESSAGE, header)
    answer = await call(pool, address, command, timeout=timeout)
    return pull_result(answer, address, broker_name)


def pull_result(answer: RemotingCommand, address: str, broker_name: str) -> PullResult:
    """What an answer to a pull says.

    Raises:
        BrokerError: the broker refuses.
        RemoteProtocolError: the answer is not usable; MessageDecodeError when that is so for a message.
    """
    status = _STATUS.get(answer.code)
    if status is None:
        raise BrokerError.for_code(answer.code, answer.remark, address=address, doing="a pull")
    header = header_of(PullMessageResponseHeader, answer, address)
    return PullResult(
        status=status,
        next_begin_offset=header.next_begin_offset,
        min_offset=header.min_offset,
        max_offset=header.max_offset,
        messages=_messages(answer.body, header, broker_name) if status is PullStatus.FOUND else [],
        suggested_broker_id=header.suggest_which_broker_id,
    )


def _messages(body: bytes, header: PullMessageResponseHeader, broker_name: str) -> list[MessageExt]:
    """The messages, each told between which offsets its queue lies: so consumers see how far they are behind."""
    messages = decode_messages(body, broker_name=broker_name)
    bounds = {PropertyName.MIN_OFFSET: str(header.min_offset), PropertyName.MAX_OFFSET: str(header.max_offset)}
    packed = encode_properties(bounds).encode()
    for message in messages:
        if isinstance(message, StoredMessage):
            message.append_properties(packed)
    return messages
