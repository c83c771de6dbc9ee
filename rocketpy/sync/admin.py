"""Admin for blocking code. Thread-safe.

Its parts wrap those of the trio surface: each call runs the trio function of the same name in the portal, with the
same arguments, result and documentation.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Unpack, final

from rocketpy.admin import admin as trio_surface
from rocketpy.client.shared_client import trio_client_of
from rocketpy.sync.lifetime import Lifetime

if TYPE_CHECKING:
    from rocketpy.config import ClientConfig
    from rocketpy.config.typed import ClientSettings
    from rocketpy.remoting.network import Network
    from rocketpy.sync.client import MQClientInstance
    from rocketpy.sync.parts.brokers import Brokers
    from rocketpy.sync.parts.consumers import Consumers
    from rocketpy.sync.parts.groups import Groups
    from rocketpy.sync.parts.messages import Messages
    from rocketpy.sync.parts.name_servers import NameServers
    from rocketpy.sync.parts.offsets import Offsets
    from rocketpy.sync.parts.producers import Producers
    from rocketpy.sync.parts.topics import Topics

__all__ = ["Admin"]

_PARTS = {
    "Brokers": "brokers",
    "Consumers": "consumers",
    "Groups": "groups",
    "Messages": "messages",
    "NameServers": "name_servers",
    "Offsets": "offsets",
    "Producers": "producers",
    "Topics": "topics",
}
"""Where the parts are. They load on first use: a command needs one or two of them, and its start takes time."""


def __getattr__(name: str) -> Any:
    if name not in _PARTS:
        raise AttributeError(f"module 'rocketpy.sync.admin' has no attribute {name!r}")
    return getattr(import_module(f"rocketpy.sync.parts.{_PARTS[name]}"), name)


@final
class Admin(Lifetime[trio_surface.Admin]):
    """Administers a cluster: ``with rocketpy.sync.Admin(namesrv="127.0.0.1:9876") as admin:``.

    Arguments, parts and calls are those of `rocketpy.Admin`, without `await`.
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
        shared = trio_client_of(client, "rocketpy.sync")
        inner = trio_surface.Admin(config, client=shared, network=network, **fields)
        super().__init__(inner, needs=client, client=inner.client)

    @property
    def config(self) -> ClientConfig:
        """The settings."""
        return self._inner.config

    @property
    def topics(self) -> Topics:
        """Create, change, delete, list and inspect topics."""
        from rocketpy.sync.parts.topics import Topics

        return Topics(self, self._inner.topics)

    @property
    def groups(self) -> Groups:
        """Create, change, delete, list and inspect consumer groups."""
        from rocketpy.sync.parts.groups import Groups

        return Groups(self, self._inner.groups)

    @property
    def offsets(self) -> Offsets:
        """Look up the lag of consumer groups, and look up, reset, commit and copy their offsets."""
        from rocketpy.sync.parts.offsets import Offsets

        return Offsets(self, self._inner.offsets)

    @property
    def messages(self) -> Messages:
        """Find messages, read queues, send messages again, and replay dead letters."""
        from rocketpy.sync.parts.messages import Messages

        return Messages(self, self._inner.messages)

    @property
    def consumers(self) -> Consumers:
        """Connected consumers, and their state."""
        from rocketpy.sync.parts.consumers import Consumers

        return Consumers(self, self._inner.consumers)

    @property
    def producers(self) -> Producers:
        """Connected producers."""
        from rocketpy.sync.parts.producers import Producers

        return Producers(self, self._inner.producers)

    @property
    def brokers(self) -> Brokers:
        """Brokers and clusters, with their settings, state and statistics."""
        from rocketpy.sync.parts.brokers import Brokers

        return Brokers(self, self._inner.brokers)

    @property
    def name_servers(self) -> NameServers:
        """Name servers, with their settings and their key-value configuration."""
        from rocketpy.sync.parts.name_servers import NameServers

        return NameServers(self, self._inner.name_servers)
