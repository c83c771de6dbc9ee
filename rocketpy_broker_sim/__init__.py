"""A RocketMQ name server and broker in pure Python, compatible on the wire and on disk.

Real RocketMQ clients of any language can use them. They start quickly, embed in a test, and run as commands
(`rocketpy-namesrv`, `rocketpy-broker`, `rocketpy-broker-sim`). Each part is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpy._version import __version__
    from rocketpy_broker_sim.broker.opening import open_broker
    from rocketpy_broker_sim.broker.tables.locks import HeldLock
    from rocketpy_broker_sim.cluster.asynchronous import AsyncioLocalCluster
    from rocketpy_broker_sim.cluster.blocking import BlockingLocalCluster
    from rocketpy_broker_sim.cluster.local import LocalCluster
    from rocketpy_broker_sim.cluster.waiting import WaitTimeoutError
    from rocketpy_broker_sim.namesrv import open_name_server

__all__ = [
    "AsyncioLocalCluster",
    "BlockingLocalCluster",
    "HeldLock",
    "LocalCluster",
    "WaitTimeoutError",
    "__version__",
    "open_broker",
    "open_name_server",
]

_HOMES = {
    "AsyncioLocalCluster": "rocketpy_broker_sim.cluster.asynchronous",
    "BlockingLocalCluster": "rocketpy_broker_sim.cluster.blocking",
    "HeldLock": "rocketpy_broker_sim.broker.tables.locks",
    "LocalCluster": "rocketpy_broker_sim.cluster.local",
    "WaitTimeoutError": "rocketpy_broker_sim.cluster.waiting",
    "__version__": "rocketpy._version",
    "open_broker": "rocketpy_broker_sim.broker.opening",
    "open_name_server": "rocketpy_broker_sim.namesrv",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
