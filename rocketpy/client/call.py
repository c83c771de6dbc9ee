"""One request to an address and its answer, of which every remote operation is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import trio

from rocketpy.errors import BrokerError, ConnectionLostError, RemoteProtocolError, RequestTimeoutError, RocketMQError
from rocketpy.remoting.rounds import in_slices
from rocketpy.wire.codes import RequestCode, ResponseCode, request_name
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.fields import Header, HeaderFieldError
from rocketpy.wire.json_body import Body
from rocketpy.wire.limits import WireLimits

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.pool import ConnectionPool

__all__ = ["ADMIN_LIMITS", "ask", "body_of", "call", "header_of", "oneway", "read_body", "request"]

ADMIN_LIMITS: Final = WireLimits(max_body_members=1_000_000)
"""What is taken of an answer about all topics, groups or queues of a server: what fits into a frame with a hundred
thousand of them. Such an answer is read in slices."""
_AT_ONCE = 16 * 1024
"""Bytes of a body that is read at once, which takes a millisecond or two."""

HeaderType = TypeVar("HeaderType", bound=Header)
BodyType = TypeVar("BodyType", bound=Body)


_COUNTED_ELSEWHERE: Final = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
    }
)
"""Sends and pulls, which producers and consumers count; brokers hold pulls for long."""


def request(code: int, header: Header | None = None, body: bytes = b"") -> RemotingCommand:
    """A request with a custom header."""
    return RemotingCommand(code, header.to_ext() if header is not None else {}, body)


async def call(pool: ConnectionPool, address: str, command: RemotingCommand, *, timeout: float) -> RemotingCommand:
    """Send a request and wait for the answer, whatever its code is. The timeout includes connecting.

    A peer that answers GO_AWAY has not carried the request out, so it is sent once more, over a new connection.

    Raises:
        ConnectError: the address cannot be reached.
        ConnectionLostError: the connection ended before the answer; whether it was carried out is unknown.
        RequestTimeoutError: no answer came in time; whether it was carried out is unknown.
    """
    deadline = trio.current_time() + timeout
    connection, answer = await _call(pool, address, command, deadline)
    if answer.code != ResponseCode.GO_AWAY:
        return answer
    pool.retire(connection)
    connection, answer = await _call(pool, address, command, deadline)
    if answer.code != ResponseCode.GO_AWAY:
        return answer
    pool.retire(connection)
    raise ConnectionLostError(
        f"{address} answered GO_AWAY twice: {request_name(command.code)} was not carried out", address=address
    )


async def _call(
    pool: ConnectionPool, address: str, command: RemotingCommand, deadline: float
) -> tuple[Connection, RemotingCommand]:
    """Send a request once. Returns the connection that was used, and the answer."""
    connection = pool.nowait(address)
    if connection is None:
        connection = await pool.get(address, timeout=max(0.001, deadline - trio.current_time()))
    began = trio.current_time()
    if deadline <= began:
        raise RequestTimeoutError(
            f"no time was left to send {request_name(command.code)} after connecting to {address}", address=address
        )
    is_metered = command.code not in _COUNTED_ELSEWHERE
    try:
        answer = await connection.request(command, timeout=deadline - began)
    except RocketMQError:
        if is_metered:
            pool.meter.note_failed(address)
        raise
    if is_metered:
        pool.meter.note_answered(address, trio.current_time() - began)
    return connection, answer


async def ask(
    pool: ConnectionPool, address: str, command: RemotingCommand, *, timeout: float, doing: str
) -> RemotingCommand:
    """Send a request whose answer must be success.

    Raises:
        BrokerError: the answer's code is not success.
        TransportError, RequestTimeoutError: as in `call`.
    """
    answer = await call(pool, address, command, timeout=timeout)
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerError.for_code(answer.code, answer.remark, address=address, doing=doing)
    return answer


async def oneway(pool: ConnectionPool, address: str, command: RemotingCommand, *, timeout: float) -> None:
    """Send a one-way request, without learning whether it was carried out.

    Raises:
        ConnectError: the address cannot be reached.
    """
    connection = pool.nowait(address) or await pool.get(address, timeout=timeout)
    connection.send_oneway(command)


def header_of(kind: type[HeaderType], answer: RemotingCommand, address: str) -> HeaderType:
    """The custom header of an answer.

    Raises:
        RemoteProtocolError: a required field is missing or malformed.
    """
    try:
        return kind.from_ext(answer.ext_fields)
    except HeaderFieldError as exc:
        raise RemoteProtocolError(f"the answer of {address} is not usable: {exc}") from exc


def body_of(kind: type[BodyType], answer: RemotingCommand, address: str) -> BodyType:
    """The JSON body of an answer.

    Raises:
        RemoteProtocolError: it is not JSON, or not of this kind.
    """
    try:
        return kind.decode(answer.body)
    except RemoteProtocolError as exc:
        raise RemoteProtocolError(f"the answer of {address} is not usable: {exc}") from exc


async def read_body(kind: type[BodyType], answer: RemotingCommand, address: str) -> BodyType:
    """The JSON body of an answer that may be large. It is read in slices, and other tasks run in between.

    Raises:
        RemoteProtocolError: it is not JSON, or not of this kind.
    """
    if len(answer.body) <= _AT_ONCE:
        return body_of(kind, answer, address)
    try:
        return await in_slices(kind.decode_steps(answer.body, limits=ADMIN_LIMITS))
    except RemoteProtocolError as exc:
        raise RemoteProtocolError(f"the answer of {address} is not usable: {exc}") from exc
