"""Pull requests: single ones, and repeated ones whose constant fields are encoded only once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from rocketpy.client.call import call, header_of, request
from rocketpy.errors import BrokerError, FilterRefusedError, RequestTimeoutError, rounded
from rocketpy.message import PropertyName
from rocketpy.remoting.hooks import hook_before
from rocketpy.results import PulledRecords, PullResult, PullStatus
from rocketpy.wire.bodies.subscription import is_tag_type
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.fast_answer import PullAnswer, scan_pull_answer
from rocketpy.wire.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.properties import encode_properties
from rocketpy.wire.serialize import decode_command, encode_command
from rocketpy.wire.templates import PullTemplate

if TYPE_CHECKING:
    from rocketpy.message import MessageExt
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.data.thread import ThreadConnection
    from rocketpy.remoting.pool import ConnectionPool
    from rocketpy.wire.codes import SerializeType
    from rocketpy.wire.frame import Frame

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
    return _result(_records(answer, address, asked), broker_name)


def _records(answer: RemotingCommand, address: str, asked: PullMessageRequestHeader) -> PulledRecords:
    """The answer without its messages decoded. Raises what `pull_result` raises, except for messages."""
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
    return _of_answer(status, bounds, answer.body, answer.remark)


def _of_answer(status: PullStatus, answer: PullAnswer, body: bytes, remark: str | None = None) -> PulledRecords:
    suggested, following, lowest, highest = answer
    return PulledRecords(status, following, lowest, highest, suggested, body, remark)


def _result(records: PulledRecords, broker_name: str) -> PullResult:
    status, following, lowest, highest, suggested, body, _ = records
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
        found = await self.ask_records(pool, address, offset, sys_flag, commit_offset, timeout=timeout)
        return _result(found, self._broker_name)

    async def ask_records(
        self, pool: ConnectionPool, address: str, offset: int, sys_flag: int, commit_offset: int, *, timeout: float
    ) -> PulledRecords:
        """Send one pull, and leave its messages as they are. Raises what `pull_message` raises, except for messages."""
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
            return _of_answer(PullStatus.FOUND, found, reply.body)
        answer = connection.decode_answer(reply)
        if answer.code != ResponseCode.GO_AWAY:
            return _records(answer, address, self._header)
        pool.retire(connection)
        left = max(0.001, deadline - trio.current_time())
        return await self._ask_in_full(pool, address, offset, sys_flag, commit_offset, left)

    def frame(self, connection: ThreadConnection, opaque: int, offset: int, sys_flag: int, commit_offset: int) -> bytes:
        """One pull, for code that makes the exchange itself and takes the answer to `records`."""
        if not connection.hooks:
            return self._template(connection).frame(opaque, offset, sys_flag, commit_offset)
        command = self._command(offset, sys_flag, commit_offset)
        command.opaque, command.serialize_type = opaque, connection.serialize_type
        hook_before(connection.hooks, connection.address, command)
        return encode_command(command)

    def records(self, reply: Frame, address: str) -> PulledRecords | None:
        """What an answer says; None if the peer has not carried out the pull, because it asks to go away.

        Raises what `pull_message` raises, except for messages.
        """
        found = scan_pull_answer(reply)
        if found is not None:
            return _of_answer(PullStatus.FOUND, found, reply.body)
        answer = decode_command(reply)
        return None if answer.code == ResponseCode.GO_AWAY else _records(answer, address, self._header)

    async def _ask_in_full(
        self, pool: ConnectionPool, address: str, offset: int, sys_flag: int, commit_offset: int, timeout: float
    ) -> PulledRecords:
        command = self._command(offset, sys_flag, commit_offset)
        answer = await call(pool, address, command, timeout=timeout)
        return _records(answer, address, self._header)

    def _command(self, offset: int, sys_flag: int, commit_offset: int) -> RemotingCommand:
        own = {"queueOffset": str(offset), "sysFlag": str(sys_flag), "commitOffset": str(commit_offset)}
        return RemotingCommand(self._code, {**self._header.to_ext(), **own})

    def _template(self, connection: Connection | ThreadConnection) -> PullTemplate:
        kind = connection.serialize_type
        template = self._templates.get(kind)
        if template is None:
            template = self._templates[kind] = PullTemplate(self._header, code=self._code, serialize_type=kind)
        return template
