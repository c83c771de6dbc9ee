"""One request and its answer, at an address: what every remote operation is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import trio

from rocketpy.errors import BrokerError, ConnectionLostError, RemoteProtocolError, RequestTimeoutError
from rocketpy.wire.codes import ResponseCode, request_name
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.fields import Header, HeaderFieldError
from rocketpy.wire.json_body import Body

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.pool import ConnectionPool

__all__ = ["ask", "body_of", "call", "header_of", "oneway", "request"]

HeaderType = TypeVar("HeaderType", bound=Header)
BodyType = TypeVar("BodyType", bound=Body)


def request(code: int, header: Header | None = None, body: bytes = b"") -> RemotingCommand:
    """A request with a custom header."""
    return RemotingCommand(code, header.to_ext() if header is not None else {}, body)


async def call(pool: ConnectionPool, address: str, command: RemotingCommand, *, timeout: float) -> RemotingCommand:
    """Send a request and wait for the answer, whatever its code is. Dialling counts against the same budget.

    A peer that asks us to go away has not carried it out: it is sent once more, over a connection of its own.

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
        f"{address} asked us twice to go away: {request_name(command.code)} was not carried out", address=address
    )


async def _call(
    pool: ConnectionPool, address: str, command: RemotingCommand, deadline: float
) -> tuple[Connection, RemotingCommand]:
    """Ask once; the connection that it took, and the answer."""
    connection = pool.nowait(address)
    if connection is None:
        connection = await pool.get(address, timeout=max(0.001, deadline - trio.current_time()))
    timeout = deadline - trio.current_time()
    if timeout <= 0:
        raise RequestTimeoutError(
            f"no time was left for {request_name(command.code)} when {address} was connected", address=address
        )
    return connection, await connection.request(command, timeout=timeout)


async def ask(
    pool: ConnectionPool, address: str, command: RemotingCommand, *, timeout: float, doing: str
) -> RemotingCommand:
    """Send a request whose answer must be success.

    Raises:
        BrokerError: the answer is another one.
        TransportError, RequestTimeoutError: as in `call`.
    """
    answer = await call(pool, address, command, timeout=timeout)
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerError.for_code(answer.code, answer.remark, address=address, doing=doing)
    return answer


async def oneway(pool: ConnectionPool, address: str, command: RemotingCommand, *, timeout: float) -> None:
    """Send a request that wants no answer; what becomes of it stays unknown.

    Raises:
        ConnectError: the address cannot be reached.
    """
    connection = pool.nowait(address) or await pool.get(address, timeout=timeout)
    connection.send_oneway(command)


def header_of(kind: type[HeaderType], answer: RemotingCommand, address: str) -> HeaderType:
    """The custom header of an answer.

    Raises:
        RemoteProtocolError: the peer left out what must be there.
    """
    try:
        return kind.from_ext(answer.ext_fields)
    except HeaderFieldError as exc:
        raise RemoteProtocolError(f"the answer of {address} is not usable: {exc}") from exc


def body_of(kind: type[BodyType], answer: RemotingCommand, address: str) -> BodyType:
    """The JSON body of an answer.

    Raises:
        RemoteProtocolError: it is not one, or not this one.
    """
    try:
        return kind.decode(answer.body)
    except RemoteProtocolError as exc:
        raise RemoteProtocolError(f"the answer of {address} is not usable: {exc}") from exc
