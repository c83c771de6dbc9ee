"""Starting and stopping a broker, in an order that loses nothing.

Start: store and tables are read, services begin, the port is opened, then the name servers are told. Stop: the name
servers are told first, so that clients go elsewhere; then what was taken is answered, and all of it reaches the disk. A
block that is cancelled stops in the same order.
Plays the part of BrokerStartup and of start and shutdown in BrokerController.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

import trio

from rocketpy.errors import StoreError
from rocketpy.logs import get_logger
from rocketpy.remoting.limits import ConnectionLimits, ServerLimits
from rocketpy.remoting.network import TcpNetwork
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.remoting.server import serve
from rocketpy.services import open_services, outliving, run_blocking, ticks
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.hosts import format_address, parse_address
from rocketpy.wire.names import LMQ_PREFIX
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.index_catch_up import IndexCatchUpService
from rocketpy_broker_sim.broker.putting import packed_address
from rocketpy_broker_sim.broker.registration import Registration
from rocketpy_broker_sim.config import BrokerConfig
from rocketpy_broker_sim.store.disk.real import RealStorage

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.hooks import RequestHook
    from rocketpy.remoting.network import Network
    from rocketpy.remoting.server import RemotingServer
    from rocketpy.seams import Storage

__all__ = ["name_server_list", "open_broker"]

_logger = get_logger(__name__)

SCAN_CLIENTS_EVERY = 10.0
GOODBYE_WITHIN = 3.0
"""Seconds that the name servers get to hear that the broker stops."""
CLOSE_WITHIN = 30.0
"""Seconds that the disk gets at the end."""
_EVERYWHERE = ("", "0.0.0.0", "::")


@asynccontextmanager
async def open_broker(
    config: BrokerConfig | None = None,
    *,
    network: Network | None = None,
    storage: Storage | None = None,
    name_servers: Sequence[str] | None = None,
    limits: ServerLimits | None = None,
    hooks: Sequence[RequestHook] = (),
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

    Raises:
        ConfigError: a name server's address is none.
        StoreError: the directory is in use by another broker, or cannot be read and written.
        TransportError: the port is taken, or the address is not one of this machine.
    """
    config = config or BrokerConfig()
    servers = name_server_list(config.namesrv_addr) if name_servers is None else list(name_servers)
    broker = Broker(config, storage or _directory(config), hooks)
    async with outliving(_running(broker, network or TcpNetwork(), servers, limits)):
        yield broker


@asynccontextmanager
async def _running(
    broker: Broker, network: Network, servers: Sequence[str], limits: ServerLimits | None
) -> AsyncIterator[None]:
    config = broker.config
    await run_blocking(_load, broker)
    try:
        async with open_services() as services, ConnectionPool(network).open() as pool:
            _start_services(broker, services)
            await _listen(broker, services, network, limits)
            broker.registration = Registration(config, broker.address, broker.topics, pool, servers)
            broker.topics.on_change = broker.registration.topics_changed
            await services.start(broker.registration.serve)
            _logger.info("broker %s serves on %s", config.broker_name, broker.address)
            try:
                yield
            finally:
                await _leave(broker)
    finally:
        await _close(broker)


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


# --- start ---------------------------------------------------------------------------------------------


def _load(broker: Broker) -> None:
    """Read everything; when that fails the store is given back."""
    broker.store.load()
    try:
        for table in (broker.topics, broker.groups, broker.offsets):
            table.load()
        broker.schedule.load()
        _adopt_topics(broker)
        broker.offsets.clamp(broker.store.max_offset)
        broker.offsets.persist()  # at once: another crash must not bring back what new messages have caught up with
        broker.booted_at = broker.store.written_position
    except BaseException:
        broker.store.close()
        raise


def _adopt_topics(broker: Broker) -> None:
    """Take up topics that have messages and no settings: the broker died before it had written those.

    Those that have no messages any more lose their queues.
    """
    store, unused = broker.store, []
    for name in sorted(store.topics()):
        if broker.topics.get(name) is not None or name.startswith(LMQ_PREFIX):
            continue
        numbers = store.queue_ids(name)
        if broker.topics.is_system(name) or any(store.min_offset(name, n) < store.max_offset(name, n) for n in numbers):
            queues = max(numbers, default=0) + 1
            _logger.warning("the topic %s has messages and no settings: it gets %d queues", name, queues)
            broker.topics.put(TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues))
        else:
            unused.append(name)
    for name in unused:
        _logger.info("the topic %s has neither messages nor settings: its queues are deleted", name)
        broker.offsets.remove_topic(name)
    store.delete_topics(unused)


def _start_services(broker: Broker, services: trio.Nursery) -> None:
    config = broker.config
    services.start_soon(broker.lanes.serve)
    services.start_soon(broker.notices.serve)
    services.start_soon(broker.held_pulls.serve, broker.turn.finish)
    services.start_soon(broker.reput.serve)
    services.start_soon(IndexCatchUpService(broker.store).serve)
    services.start_soon(broker.allocation.serve)
    services.start_soon(broker.cleaning.serve)
    services.start_soon(broker.queue_flush.serve)
    services.start_soon(broker.persistence.serve_changes)
    services.start_soon(broker.persistence.serve_periodically, config.flush_consumer_offset_interval / 1000)
    services.start_soon(broker.schedule.serve)
    services.start_soon(broker.schedule.serve_offsets, config.store.flush_delay_offset_interval / 1000)
    services.start_soon(broker.statistics.serve)
    services.start_soon(_scan_clients, broker)
    if broker.transient_commit is not None:
        services.start_soon(broker.transient_commit.serve)
    if broker.group_commit is None:
        services.start_soon(broker.log_flush.serve)
    else:
        services.start_soon(broker.disk.thread.serve)
        services.start_soon(broker.group_commit.serve)
        services.start_soon(broker.group_commit.serve_deadlines)


async def _scan_clients(broker: Broker) -> None:
    """Forget clients that have gone silent, and close their connections."""
    async for _ in ticks(SCAN_CLIENTS_EVERY):
        broker.slices.spawn(_close_silent(broker), "looking for silent clients")


def _close_silent(broker: Broker) -> Generator[None, None, None]:
    consumers = yield from broker.consumers.scan()
    producers = yield from broker.producers.scan()
    for channel in {*consumers, *producers}:
        cast("Connection", channel).close()
        yield


async def _listen(broker: Broker, services: trio.Nursery, network: Network, limits: ServerLimits | None) -> None:
    """Open the port, and settle under which address clients find it."""
    settings = broker.config.server
    if limits is None:
        idle = float(settings.server_channel_max_idle_time_seconds)
        limits = ServerLimits(connection=ConnectionLimits(idle_timeout=idle))

    async def run(task_status: trio.TaskStatus[RemotingServer]) -> None:
        await serve(
            network,
            settings.bind_address,
            settings.listen_port,
            broker.lanes,
            limits=limits,
            on_close=broker.forget_connection,
            task_status=task_status,
        )

    broker.server = await services.start(run)
    host, port = parse_address(broker.server.addresses[0])
    known = broker.config.broker_ip1 or (network.local_ip() if host in _EVERYWHERE else host)
    broker.address = format_address(known, port)
    broker.store_host = packed_address(broker.address)
    if not any(broker.store_host):
        # A name instead of an address: records can only carry addresses.
        broker.store_host = packed_address(format_address(network.local_ip(), port))


# --- stop ----------------------------------------------------------------------------------------------


async def _leave(broker: Broker) -> None:
    """Say goodbye, then let what was taken be answered; within the settings' time even when cancelled."""
    if broker.is_killed:
        if broker.registration is not None:
            broker.registration.stop()  # or it would miss the connections that are closed now
        return
    with trio.move_on_after(GOODBYE_WITHIN, shield=True):
        if broker.registration is not None:
            await broker.registration.unregister()
    with trio.move_on_after(broker.config.server.shutdown_wait_time_seconds, shield=True):
        if broker.server is not None:
            broker.held_pulls.close()
            broker.turn.finish()
            await broker.server.stop(broker.config.server.shutdown_wait_time_seconds)


async def _close(broker: Broker) -> None:
    """Write what is left. Nobody puts any more."""
    if broker.is_killed:
        broker.store.abandon()
        return
    with trio.move_on_after(CLOSE_WITHIN, shield=True):
        await broker.persistence.save()
        try:
            await broker.schedule.save()
        except StoreError as exc:
            _logger.warning("delayed messages may be delivered again: %s", exc)
        await run_blocking(broker.store.close)
