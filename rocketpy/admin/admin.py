"""Admin: administers a cluster, on trio. Plays the part of DefaultMQAdminExt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self, Unpack, final

from rocketpy.admin.servers import Servers
from rocketpy.client.opening import Opening
from rocketpy.client.shared_client import check_shared
from rocketpy.config import ClientConfig
from rocketpy.errors import ConfigError

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from rocketpy.admin.brokers import Brokers
    from rocketpy.admin.consumers import Consumers
    from rocketpy.admin.groups import Groups
    from rocketpy.admin.messages import Messages
    from rocketpy.admin.name_servers import NameServers
    from rocketpy.admin.offsets import Offsets
    from rocketpy.admin.producers import Producers
    from rocketpy.admin.topics import Topics
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config.typed import ClientSettings
    from rocketpy.remoting.network import Network

__all__ = ["Admin"]


class HasClient(Protocol):
    """A producer or consumer."""

    client: MQClientInstance


@final
class Admin(Opening):
    """Administers a cluster: ``async with rocketpy.Admin(namesrv="127.0.0.1:9876") as admin:``.

    The calls are grouped into parts: ``await admin.topics.create("Orders")``. An `Admin` needs no producer or consumer,
    and does nothing in the background. `producer.admin()` returns one that shares the client of the producer;
    consumers have the same method.

    Each request to a server has a timeout of `request_timeout` seconds, or at least 11 seconds if the broker has to ask
    a client (`state`, `offsets` and `consume` of `consumers`). A command for several servers is sent to all of them
    at the same time. If it fails on some, `BrokersFailedError` names them, and it has succeeded on the others.

    Args:
        config: the settings of the client that it creates; `fields` override them.
        client: a client to share; if None, it creates one.
        network: what opens the connections of the client that it creates.
        fields: settings by name, as in `ClientConfig`.

    Raises:
        ConfigError: a setting cannot be used.
    """

    _owner: HasClient | None = None
    """The producer or consumer that created it."""

    def __init__(
        self,
        config: ClientConfig | None = None,
        *,
        client: MQClientInstance | None = None,
        network: Network | None = None,
        **fields: Unpack[ClientSettings],
    ) -> None:
        self._made_with = {"config": config, "client": client, "network": network, **fields}
        check_shared(client, network)
        if client is not None and (fields or config is not None):
            names = ", ".join(sorted(fields)) or "the config"
            raise ConfigError(
                f"a shared client already has its own settings: leave out {names}, or leave out the client"
            )
        self.config = ClientConfig.of(config, **fields) if client is None else client.config
        super().__init__("admin", self.config, client, network)

    def __repr__(self) -> str:
        """Short form for logs."""
        return f"<Admin {self._lifecycle.shown.value}>"

    async def __aenter__(self) -> Self:
        """Open it.

        Raises:
            ClientClosedError: it was started before, or the shared client is not open.
        """
        if self._owner is not None:
            self.client = self._owner.client  # a new one after a failed start, or after a fork
        return await super().__aenter__()

    async def _open(self, stack: AsyncExitStack) -> None:
        """Open nothing: everything belongs to the client."""

    # Each part is imported when it is used: a command needs one or two of them, and its start takes time.

    def _usable(self) -> Servers:
        self._lifecycle.check_here()
        self.client.check_here()
        return Servers(self.client)

    @property
    def topics(self) -> Topics:
        """Create, change, delete, list and inspect topics."""
        from rocketpy.admin.topics import Topics

        return Topics(self._usable)

    @property
    def groups(self) -> Groups:
        """Create, change, delete, list and inspect consumer groups."""
        from rocketpy.admin.groups import Groups

        return Groups(self._usable)

    @property
    def offsets(self) -> Offsets:
        """Look up the lag of consumer groups, and look up, reset, commit and copy their offsets."""
        from rocketpy.admin.offsets import Offsets

        return Offsets(self._usable)

    @property
    def messages(self) -> Messages:
        """Find messages, read queues, send messages again, and replay dead letters."""
        from rocketpy.admin.messages import Messages

        return Messages(self._usable)

    @property
    def consumers(self) -> Consumers:
        """Connected consumers, and their state."""
        from rocketpy.admin.consumers import Consumers

        return Consumers(self._usable)

    @property
    def producers(self) -> Producers:
        """Connected producers."""
        from rocketpy.admin.producers import Producers

        return Producers(self._usable)

    @property
    def brokers(self) -> Brokers:
        """Brokers and clusters, with their settings, state and statistics."""
        from rocketpy.admin.brokers import Brokers

        return Brokers(self._usable)

    @property
    def name_servers(self) -> NameServers:
        """Name servers, with their settings and their key-value configuration."""
        from rocketpy.admin.name_servers import NameServers

        return NameServers(self._usable)
