"""Admin for asyncio.

Its parts wrap those of the trio surface: each call runs the trio function of the same name in the portal, with the
same arguments, result and documentation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, final

from rocketpy.admin import admin as trio_surface
from rocketpy.admin import brokers, consumers, groups, messages, name_servers, offsets, producers, topics
from rocketpy.admin.part import Part as TrioPart
from rocketpy.aio.bridge import Bridge
from rocketpy.aio.lifetime import Lifetime
from rocketpy.client.shared_client import trio_client_of

if TYPE_CHECKING:
    from rocketpy.aio.client import MQClientInstance
    from rocketpy.config import ClientConfig
    from rocketpy.config.typed import ClientSettings
    from rocketpy.remoting.network import Network

__all__ = ["Admin"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=TrioPart)


class Part(Generic[T]):
    """One part of an Admin.

    Args:
        admin: the Admin.
        inner: the part of the trio surface.
    """

    __slots__ = ("_admin", "_inner")

    def __init__(self, admin: Admin, inner: T) -> None:
        self._admin = admin
        self._inner = inner

    def __repr__(self) -> str:
        """Short form for logs."""
        return repr(self._inner)


def _awaited(
    function: Callable[Concatenate[T, P], Awaitable[R]],
) -> Callable[Concatenate[Part[T], P], Coroutine[Any, Any, R]]:
    """Return a method that runs an async method of the trio surface in the portal, and awaits its result."""

    @wraps(function)
    async def call(self: Part[T], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._admin._call(function, self._inner, *args, **kwargs)

    return call


class Topics(Part[topics.Topics]):
    """The topics of a cluster: ``admin.topics``."""

    __slots__ = ()

    list = _awaited(topics.Topics.list)
    get = _awaited(topics.Topics.get)
    get_all = _awaited(topics.Topics.get_all)
    route = _awaited(topics.Topics.route)
    stats = _awaited(topics.Topics.stats)
    traffic = _awaited(topics.Topics.traffic)
    create = _awaited(topics.Topics.create)
    update = _awaited(topics.Topics.update)
    delete = _awaited(topics.Topics.delete)


class Groups(Part[groups.Groups]):
    """The consumer groups of a cluster: ``admin.groups``."""

    __slots__ = ()

    list = _awaited(groups.Groups.list)
    get = _awaited(groups.Groups.get)
    get_all = _awaited(groups.Groups.get_all)
    create = _awaited(groups.Groups.create)
    update = _awaited(groups.Groups.update)
    delete = _awaited(groups.Groups.delete)
    set_readable = _awaited(groups.Groups.set_readable)


class Offsets(Part[offsets.Offsets]):
    """The offsets of consumer groups: ``admin.offsets``."""

    __slots__ = ()

    lag = _awaited(offsets.Offsets.lag)
    lags = _awaited(offsets.Offsets.lags)
    at = _awaited(offsets.Offsets.at)
    reset = _awaited(offsets.Offsets.reset)
    commit = _awaited(offsets.Offsets.commit)
    clone = _awaited(offsets.Offsets.clone)


class Messages(Part[messages.Messages]):
    """The messages of a cluster: ``admin.messages``."""

    __slots__ = ()

    view = _awaited(messages.Messages.view)
    query = _awaited(messages.Messages.query)
    query_unique = _awaited(messages.Messages.query_unique)
    read = _awaited(messages.Messages.read)
    entries = _awaited(messages.Messages.entries)
    by_time = _awaited(messages.Messages.by_time)
    resend = _awaited(messages.Messages.resend)
    dead_letters = _awaited(messages.Messages.dead_letters)
    replay_dead_letters = _awaited(messages.Messages.replay_dead_letters)
    track = _awaited(messages.Messages.track)
    trace = _awaited(messages.Messages.trace)


class Consumers(Part[consumers.Consumers]):
    """Connected consumers: ``admin.consumers``."""

    __slots__ = ()

    connections = _awaited(consumers.Consumers.connections)
    of_topic = _awaited(consumers.Consumers.of_topic)
    topics = _awaited(consumers.Consumers.topics)
    state = _awaited(consumers.Consumers.state)
    offsets = _awaited(consumers.Consumers.offsets)
    consume = _awaited(consumers.Consumers.consume)


class Producers(Part[producers.Producers]):
    """Connected producers: ``admin.producers``."""

    __slots__ = ()

    connections = _awaited(producers.Producers.connections)
    list = _awaited(producers.Producers.list)


class Brokers(Part[brokers.Brokers]):
    """The brokers of a cluster: ``admin.brokers``."""

    __slots__ = ()

    list = _awaited(brokers.Brokers.list)
    config = _awaited(brokers.Brokers.config)
    runtime = _awaited(brokers.Brokers.runtime)
    runtimes = _awaited(brokers.Brokers.runtimes)
    stats = _awaited(brokers.Brokers.stats)
    replication = _awaited(brokers.Brokers.replication)
    update_config = _awaited(brokers.Brokers.update_config)
    set_writable = _awaited(brokers.Brokers.set_writable)
    delete_expired_files = _awaited(brokers.Brokers.delete_expired_files)
    delete_expired_queues = _awaited(brokers.Brokers.delete_expired_queues)
    delete_unused_queues = _awaited(brokers.Brokers.delete_unused_queues)


class NameServers(Part[name_servers.NameServers]):
    """The name servers: ``admin.name_servers``."""

    __slots__ = ()

    config = _awaited(name_servers.NameServers.config)
    update_config = _awaited(name_servers.NameServers.update_config)
    get = _awaited(name_servers.NameServers.get)
    list = _awaited(name_servers.NameServers.list)
    put = _awaited(name_servers.NameServers.put)
    delete = _awaited(name_servers.NameServers.delete)
    set_order = _awaited(name_servers.NameServers.set_order)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Host and port of each name server of this client."""
        return self._admin._inner.client.name_servers.addresses


@final
class Admin(Lifetime[trio_surface.Admin]):
    """Administers a cluster: ``async with rocketpy.aio.Admin(namesrv="127.0.0.1:9876") as admin:``.

    Arguments, parts and calls are those of `rocketpy.Admin`.
    """

    def __init__(
        self,
        config: ClientConfig | None = None,
        *,
        client: MQClientInstance | None = None,
        network: Network | None = None,
        **fields: Unpack[ClientSettings],
    ) -> None:
        self._made_with = {"config": config, "client": client, "network": network, **fields}
        shared = trio_client_of(client, "rocketpy.aio")
        inner = trio_surface.Admin(config, client=shared, network=network, **fields)
        super().__init__(inner, Bridge("admin", inner.client), needs=client)

    @property
    def config(self) -> ClientConfig:
        """The settings."""
        return self._inner.config

    @property
    def topics(self) -> Topics:
        """Create, change, delete, list and inspect topics."""
        return Topics(self, self._inner.topics)

    @property
    def groups(self) -> Groups:
        """Create, change, delete, list and inspect consumer groups."""
        return Groups(self, self._inner.groups)

    @property
    def offsets(self) -> Offsets:
        """Look up the lag of consumer groups, and look up, reset, commit and copy their offsets."""
        return Offsets(self, self._inner.offsets)

    @property
    def messages(self) -> Messages:
        """Find messages, read queues, send messages again, and replay dead letters."""
        return Messages(self, self._inner.messages)

    @property
    def consumers(self) -> Consumers:
        """Connected consumers, and their state."""
        return Consumers(self, self._inner.consumers)

    @property
    def producers(self) -> Producers:
        """Connected producers."""
        return Producers(self, self._inner.producers)

    @property
    def brokers(self) -> Brokers:
        """Brokers and clusters, with their settings, state and statistics."""
        return Brokers(self, self._inner.brokers)

    @property
    def name_servers(self) -> NameServers:
        """Name servers, with their settings and their key-value configuration."""
        return NameServers(self, self._inner.name_servers)
