"""The name servers: `admin.name_servers`."""

from __future__ import annotations

from rocketpy.admin import name_servers
from rocketpy.sync.parts.part import Part, blocking

__all__ = ["NameServers"]


class NameServers(Part[name_servers.NameServers]):
    """The name servers: ``admin.name_servers``."""

    __slots__ = ()

    config = blocking(name_servers.NameServers.config)
    update_config = blocking(name_servers.NameServers.update_config)
    get = blocking(name_servers.NameServers.get)
    list = blocking(name_servers.NameServers.list)
    put = blocking(name_servers.NameServers.put)
    delete = blocking(name_servers.NameServers.delete)
    set_order = blocking(name_servers.NameServers.set_order)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Host and port of each name server of this client."""
        return self._admin._inner.client.name_servers.addresses
