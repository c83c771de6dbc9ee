"""What a cluster needs: a trio loop, a network, and storage in memory or in a directory."""

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
    """Check that a trio loop is running.

    Raises:
        ConfigError: there is none.
    """
    try:
        trio.lowlevel.current_trio_token()
    except (RuntimeError, AttributeError):  # AttributeError if another kind of loop runs in place of trio's
        raise ConfigError(
            "LocalCluster needs a running trio loop, and there is none here: use AsyncioLocalCluster in asyncio, and "
            "BlockingLocalCluster in code without a loop"
        ) from None


def network_of(network: Literal["tcp", "memory"] | Network) -> Network:
    """The network for the argument `network`.

    Raises:
        ConfigError: it is not a network, nor the name of one.
    """
    if hasattr(network, "open_stream") and hasattr(network, "listen"):
        return cast("Network", network)
    if network == "tcp":
        return TcpNetwork()
    if network == "memory":
        return MemoryNetwork()
    raise ConfigError(f'network must be "tcp", "memory" or a network, not {network!r}')


def storage_of(data: object, name: str) -> Storage:
    """The storage of a server: in memory if `data` is None, otherwise the directory `name` below `data`.

    Raises:
        ConfigError: `data` is not the path of a directory.
    """
    if data is None:
        return MemoryStorage()
    if not isinstance(data, str | os.PathLike) or not str(data):
        raise ConfigError(f"data must be the path of a directory, not {data!r:.100}")
    try:
        return RealStorage(Path(data).expanduser() / name)
    except RuntimeError as exc:  # as with ~somebody, if there is no such user
        raise ConfigError(f"data={str(data)!r:.100} is not usable: {exc}") from exc
