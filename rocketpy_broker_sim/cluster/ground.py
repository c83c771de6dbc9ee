"""What a cluster stands on: a trio loop, a network, and memory or a directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import trio

from rocketpy.errors import ConfigError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.network import TcpNetwork
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.disk.real import RealStorage

if TYPE_CHECKING:
    from rocketpy.remoting.network import Network
    from rocketpy.seams import Storage

__all__ = ["need_trio", "network_of", "storage_of"]


def need_trio() -> None:
    """Refuse to run where no trio loop does.

    Raises:
        ConfigError: none does.
    """
    try:
        trio.lowlevel.current_trio_token()
    except (RuntimeError, AttributeError):  # the latter where another kind of loop runs in the place of trio's
        raise ConfigError(
            "LocalCluster runs on trio, and no trio loop runs here: take AsyncioLocalCluster in asyncio, and "
            "BlockingLocalCluster where there is no loop"
        ) from None


def network_of(network: Literal["tcp", "memory"] | Network) -> Network:
    """The network that is meant.

    Raises:
        ConfigError: it is none.
    """
    if hasattr(network, "open_stream") and hasattr(network, "listen"):
        return cast("Network", network)
    if network == "tcp":
        return TcpNetwork()
    if network == "memory":
        return MemoryNetwork()
    raise ConfigError(f'network={network!r} is not "tcp", "memory" or a network')


def storage_of(data: object, name: str) -> Storage:
    """Where a server of that name keeps its data: in memory when None, below a directory otherwise.

    Raises:
        ConfigError: this can be no directory.
    """
    if data is None:
        return MemoryStorage()
    if not isinstance(data, str | os.PathLike) or not str(data):
        raise ConfigError(f"data is the path of a directory, not {data!r:.100}")
    try:
        return RealStorage(Path(data).expanduser() / name)
    except RuntimeError as exc:  # as with ~somebody, of whom the system does not know
        raise ConfigError(f"data={str(data)!r:.100} cannot be: {exc}") from exc
