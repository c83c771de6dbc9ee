"""Checks of the argument `client=`, a client that several producers and consumers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocketpy.client.instance import MQClientInstance
from rocketpy.errors import ConfigError

if TYPE_CHECKING:
    from rocketpy.remoting.network import Network

__all__ = ["ClientOf", "check_shared", "trio_client_of"]


def check_shared(client: object, network: Network | None) -> None:
    """Refuse anything but a client of the trio surface, and a network together with a client.

    Raises:
        ConfigError: it is one of these.
    """
    if client is None:
        return
    if not isinstance(client, MQClientInstance):
        raise ConfigError(f"client must be a rocketpy.MQClientInstance, not {client!r:.100}")
    if network is not None:
        raise ConfigError("give a client or a network, not both: a client has a network of its own")


def trio_client_of(client: Any, surface: str) -> MQClientInstance | None:
    """The trio client behind a client of another surface; None if there is no client.

    Raises:
        ConfigError: it is not a client of that surface.
    """
    if client is None:
        return None
    found = getattr(client, "trio_client", None)
    if not isinstance(found, MQClientInstance):
        raise ConfigError(f"client must be a {surface}.MQClientInstance, not {client!r:.100}")
    if client._surface != surface:
        raise ConfigError(
            f"client must be a {surface}.MQClientInstance, not one of {client._surface}: make one of {surface} for its "
            "producers and consumers"
        )
    return found


class ClientOf:
    """The client of a producer or consumer of another surface, which it keeps alive, for `trio_client_of`.

    Args:
        owner: the producer or consumer.
        surface: the surface.
    """

    def __init__(self, owner: Any, surface: str) -> None:
        self.owner = owner
        self._surface = surface

    @property
    def trio_client(self) -> MQClientInstance:
        """The client of the trio surface."""
        client: MQClientInstance = self.owner._inner.client
        return client
