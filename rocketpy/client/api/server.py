"""Requests about a server itself: its settings, its state, and deleting what it no longer needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rocketpy.client.call import ask, body_of, read_body, request
from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.bodies.replication import HARuntimeInfo
from rocketpy.wire.bodies.route import KVTable
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.properties_text import format_properties, read_properties

if TYPE_CHECKING:
    from rocketpy.remoting.pool import ConnectionPool

__all__ = ["broker_config", "clean", "name_server_config", "replication", "runtime_info", "update_config"]


async def broker_config(pool: ConnectionPool, address: str, *, timeout: float) -> dict[str, str]:
    """The settings of a broker, under Java's keys.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: the server does not answer.
        RemoteProtocolError: the answer is not usable.
    """
    return await _config(pool, address, RequestCode.GET_BROKER_CONFIG, timeout)


async def name_server_config(pool: ConnectionPool, address: str, *, timeout: float) -> dict[str, str]:
    """The settings of a name server, under Java's keys.

    Raises:
        BrokerError: the name server refuses.
        TransportError, RequestTimeoutError: the server does not answer.
        RemoteProtocolError: the answer is not usable.
    """
    return await _config(pool, address, RequestCode.GET_NAMESRV_CONFIG, timeout)


async def _config(pool: ConnectionPool, address: str, code: RequestCode, timeout: float) -> dict[str, str]:
    answer = await ask(pool, address, request(code), timeout=timeout, doing="asking for the settings")
    try:
        return read_properties(bytes(answer.body).decode())
    except (UnicodeDecodeError, RemoteProtocolError) as exc:
        raise RemoteProtocolError(f"the settings of {address} are not usable: {exc}") from exc


async def update_config(
    pool: ConnectionPool, address: str, values: Mapping[str, str], *, of_name_server: bool = False, timeout: float
) -> None:
    """Change settings of a broker or a name server, under Java's keys.

    Raises:
        BrokerError: the server refuses a key or a value; nothing was changed.
        TransportError, RequestTimeoutError: the server does not answer.
    """
    code = RequestCode.UPDATE_NAMESRV_CONFIG if of_name_server else RequestCode.UPDATE_BROKER_CONFIG
    escaped = {key: _escaped(value) for key, value in values.items()}
    command = request(code, body=format_properties(escaped).encode())
    await ask(pool, address, command, timeout=timeout, doing=f"changing {', '.join(values)}")


def _escaped(value: str) -> str:
    r"""A value as servers read it: they resolve ``\`` and ``\uXXXX``, and Java reads bytes outside ASCII as Latin-1."""
    units = value.replace("\\", "\\\\").encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[index : index + 2]) for index in range(0, len(units), 2))
    return "".join(chr(code) if 0x20 <= code < 0x7F else f"\\u{code:04x}" for code in codes)


async def runtime_info(pool: ConnectionPool, address: str, *, timeout: float) -> dict[str, str]:
    """The state of a broker, as text.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: the server does not answer.
    """
    command = request(RequestCode.GET_BROKER_RUNTIME_INFO)
    answer = await ask(pool, address, command, timeout=timeout, doing="asking for the state")
    return (await read_body(KVTable, answer, address)).table


async def clean(pool: ConnectionPool, address: str, code: RequestCode, *, timeout: float) -> None:
    """Have a broker delete expired files or queues, or the queues of deleted topics, as the code says.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: the server does not answer.
    """
    await ask(pool, address, request(code), timeout=timeout, doing="cleaning up")


async def replication(pool: ConnectionPool, address: str, *, timeout: float) -> HARuntimeInfo:
    """How a master and its slaves keep up with each other, as one of them sees it (5.x).

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    command = request(RequestCode.GET_BROKER_HA_STATUS)
    answer = await ask(pool, address, command, timeout=timeout, doing="asking for the state of replication")
    return body_of(HARuntimeInfo, answer, address)
