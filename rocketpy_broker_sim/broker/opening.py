"""Starting and stopping a broker, in an order that loses nothing.

Start: store and tables are read, services begin, the port is opened, then the name servers are told. Stop: the name
servers are told first, so that clients go elsewhere; then what was taken is answered, and all of it reaches the disk. A
block that is cancelled stops in the same order. The order is that of the broker's list of subsystems.
Plays the part of BrokerStartup and of start and shutdown in BrokerController.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from rocketpy.logs import get_logger
from rocketpy.services import open_services, outliving, run_blocking
from rocketpy.wire.hosts import format_address, parse_address
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.config import BrokerConfig
from rocketpy_broker_sim.serving.memory import warn_of_full_tables
from rocketpy_broker_sim.store.disk.real import RealStorage

if TYPE_CHECKING:
    from rocketpy.remoting.hooks import RequestHook
    from rocketpy.remoting.limits import ServerLimits
    from rocketpy.remoting.network import Network
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.broker.readers import Hear

__all__ = ["name_server_list", "open_broker"]

_logger = get_logger(__name__)

CLOSE_WITHIN = 30.0
"""Seconds that the disk gets at the end."""


@asynccontextmanager
async def open_broker(
    config: BrokerConfig | None = None,
    *,
    network: Network | None = None,
    storage: Storage | None = None,
    name_servers: Sequence[str] | None = None,
    limits: ServerLimits | None = None,
    hooks: Sequence[RequestHook] = (),
    hear: Sequence[Hear] = (),
) -> AsyncIterator[Broker]:
    """Run a broker for the time of a block.

    It serves, and the name servers that can be reached know it, when the block begins. A start that fails leaves
    nothing behind.

    Args:
        config: its settings; it listens on this machine only unless they say otherwise, port 0 takes any free port.
        network: where it listens and dials, TCP when None.
        storage: where it keeps everything, the directory of the settings when None.
        name_servers: addresses to register with; those of the settings when None.
        limits: bounds on connections and frames.
        hooks: see every request and its answer; what they raise becomes the answer.
        hear: called with everything that can be read from now on; plain functions that do not raise.

    Raises:
        ConfigError: a name server's address is none, or metrics are asked for and the extra `prometheus` is missing.
        StoreError: the directory is in use by another broker, or cannot be read and written.
        TransportError: the port is taken, or the address is not one of this machine.
    """
    config = config or BrokerConfig()
    servers = name_server_list(config.namesrv_addr) if name_servers is None else list(name_servers)
    storage = storage or _directory(config)
    broker = Broker(config, storage, hooks, network=network, name_servers=servers, limits=limits, hear=hear)
    async with outliving(_running(broker)):
        yield broker


@asynccontextmanager
async def _running(broker: Broker) -> AsyncIterator[None]:
    await run_blocking(broker.recover)
    warn_of_full_tables(broker.memory)
    try:
        async with open_services() as services:
            for subsystem in broker.subsystems:
                await subsystem.open(services)
            _logger.info("broker %s serves on %s", broker.config.broker_name, broker.address)
            try:
                yield
            finally:
                await _leave(broker)
    finally:
        await _close(broker)


async def _leave(broker: Broker) -> None:
    """Let every part take leave, each within its time even when cancelled."""
    if not broker.is_killed:
        for subsystem in reversed(broker.subsystems):
            await subsystem.leave()


async def _close(broker: Broker) -> None:
    """Write what is left. Nobody puts any more.

    What does not close in time is abandoned, so that the directory is free: the next start recovers.
    """
    left = [*broker.subsystems]
    try:
        if not broker.is_killed:
            with trio.move_on_after(CLOSE_WITHIN, shield=True) as scope:
                while left:
                    await left[-1].close()
                    left.pop()
            if scope.cancelled_caught:
                _logger.error(
                    "broker %s was not closed within %d s, and will be recovered at the next start: is its disk slow?",
                    broker.config.broker_name,
                    CLOSE_WITHIN,
                )
    finally:
        while left:
            left.pop().abandon()


def name_server_list(text: str) -> list[str]:
    """The addresses in "a:9876;b:9876".

    Raises:
        ConfigError: one of them is none.
    """
    addresses = [part.strip() for part in text.split(";") if part.strip()]
    return [format_address(*parse_address(address)) for address in addresses]


def _directory(config: BrokerConfig) -> RealStorage:
    """The directory of the settings; the commit log may stand elsewhere."""
    root, log = config.store.store_path_root_dir, config.store.store_path_commit_log
    mounts = {"commitlog": os.path.expanduser(log)} if log else {}
    return RealStorage(os.path.expanduser(root), mounts=mounts)
