"""Pull requests: single ones, and repeated ones whose constant fields are encoded only once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from rocketpy.client.call import call, header_of, request
from rocketpy.errors import BrokerError, FilterRefusedError, RequestTimeoutError, rounded
from rocketpy.message import PropertyName
from rocketpy.results import PullResult, PullStatus
from rocketpy.wire.bodies.subscription import is_tag_type
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.fast_answer import PullAnswer, scan_pull_answer
from rocketpy.wire.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.properties import encode_properties
from rocketpy.wire.templates import PullTemplate

if TYPE_CHECKING:
    from rocketpy.message import MessageExt
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.pool import ConnectionPool
    from rocketpy.wire.codes import SerializeType

__all__ = ["PullForm", "pull_message", "pull_result"]

_STATUS: dict[int, PullStatus] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MSG,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MSG,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


_BOUNDS = encode_properties({PropertyName.MIN_OFFSET: "%d", PropertyName.MAX_OFFSET: "%d"}).encode()


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
        broker_name: the broker name to set on the messages.
        timeout: seconds; longer than the broker may hold the request.
        lite: whether to send a lite pull.

    Raises:
        BrokerError: the broker refuses; FilterRefusedError if the header has an SQL expression that is wrong.
        MessageDecodeError: a record is damaged; its `decoded` holds the messages before it.
        TransportError, RequestTimeoutError: it does not answer.
    """
    command = request(RequestCode.LITE_PULL_MESSAGE if lite else RequestCode.PULL_MESSAGE, header)
    answer = await call(pool, address, command, timeout=timeout)
    return pull_result(answer, address, broker_name, header)


def pull_result(answer: RemotingCommand, address: str, broker_name: str, asked: PullMessageRequestHeader) -> PullResult:
    """Decode the answer to a pull.

    Raises:
        BrokerError: the broker refuses; FilterRefusedError if it was asked for an SQL expression that is wrong.
        RemoteProtocolError: the answer is not usable; MessageDecodeError if a message is damaged.
    """
    status = _STATUS.get(answer.code)
    if status is None:
        if answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED and not is_tag_type(asked.expression_type):
            raise FilterRefusedError(
                answer.code,
                answer.remark or "",
                address=address,
                topic=asked.topic,
                expression=asked.subscription or "",
            )
        raise BrokerError.for_code(answer.code, answer.remark, address=address, doing="a pull")
    header = header_of(PullMessageResponseHeader, answer, address)
    bounds = header.suggest_which_broker_id, header.next_begin_offset, header.min_offset, header.max_offset
    return _result(status, bounds, answer.body, broker_name)


def _result(status: PullStatus, answer: PullAnswer, body: bytes, broker_name: str) -> PullResult:
    suggested, following, lowest, highest = answer
    messages: list[MessageExt] = []
    if status is PullStatus.FOUND:
        # Every message gets the offsets of its queue as properties, from which consumers see how far they are behind.
        messages = decode_messages(body, broker_name=broker_name, more_properties=_BOUNDS % (lowest, highest))
    return PullResult(
        status=status,
        next_begin_offset=following,
        min_offset=lowest,
        max_offset=highest,
        messages=messages,
        suggested_broker_id=suggested,
    )


class PullForm:
    """Pulls of one queue that differ only in offsets and flags; everything else is encoded once.

    Args:
        header: the header of all of them.
        broker_name: the broker name to set on the messages.
        lite: whether to send lite pulls.
    """

    def __init__(self, header: PullMessageRequestHeader, *, broker_name: str, lite: bool = False) -> None:
        self._header = header
        self._code = RequestCode.LITE_PULL_MESSAGE if lite else RequestCode.PULL_MESSAGE
        self._broker_name = broker_name
        self._templates: dict[SerializeType, PullTemplate] = {}

    async def ask(
        self, pool: ConnectionPool, address: str, offset: int, sys_flag: int, commit_offset: int, *, timeout: float
    ) -> PullResult:
        """Send one pull. Raises what `pull_message` raises."""
        deadline = trio.current_time() + timeout
        connection = pool.nowait(address)
        if connection is None or connection.hooks:  # connecting has to wait, and hooks get the header's fields
            return await self._ask_in_full(pool, address, offset, sys_flag, commit_offset, timeout)
        opaque = connection.next_opaque()
        frame = self._template(connection).frame(opaque, offset, sys_flag, commit_offset)
        try:
            reply = await connection.exchange(opaque, frame, deadline)
        except RequestTimeoutError as exc:
            text = f"a pull of {self._header.topic}, allowed {rounded(timeout)} s: {exc}"
            raise RequestTimeoutError(text, address=address, timeout=timeout) from None
        found = scan_pull_answer(reply)
        if found is not None:
            return _result(PullStatus.FOUND, found, reply.body, self._broker_name)
        answer = connection.decode_answer(reply)
        if answer.code != ResponseCode.GO_AWAY:
            return pull_result(answer, address, self._broker_name, self._header)
        pool.retire(connection)
        left = max(0.001, deadline - trio.current_time())
        return await self._ask_in_full(pool, address, offset, sys_flag, commit_offset, left)

    async def _ask_in_full(
        self, pool: ConnectionPool, address: str, offset: int, sys_flag: int, commit_offset: int, timeout: float
    ) -> PullResult:
        own = {"queueOffset": str(offset), "sysFlag": str(sys_flag), "commitOffset": str(commit_offset)}
        command = RemotingCommand(self._code, {**self._header.to_ext(), **own})
        answer = await call(pool, address, command, timeout=timeout)
        return pull_result(answer, address, self._broker_name, self._header)

    def _template(self, connection: Connection) -> PullTemplate:
        kind = connection.serialize_type
        template = self._templates.get(kind)
        if template is None:
            template = self._templates[kind] = PullTemplate(self._header, code=self._code, serialize_type=kind)
        return template
