"""MQClientInstance for blocking code: made to be shared by several producers and consumers with `client=`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Unpack, final

from rocketpy.client.instance import MQClientInstance as TrioClient
from rocketpy.sync.lifetime import Lifetime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketpy.client.statistics import ClientStatistics
    from rocketpy.config import ClientConfig
    from rocketpy.config.typed import ClientSettings
    from rocketpy.remoting.hooks import RequestHook
    from rocketpy.remoting.network import Network

__all__ = ["MQClientInstance"]


@final
class MQClientInstance(Lifetime[TrioClient]):
    """A client to share: ``with rocketpy.sync.MQClientInstance(namesrv="127.0.0.1:9876") as client:``.

    The arguments are those of `rocketpy.MQClientInstance`. A client with hooks has a background thread of its own, in
    which the hooks are called, so a slow hook delays no other client.
    """

    _surface: Final = "rocketpy.sync"

    def __init__(
        self,
        config: ClientConfig | None = None,
        *,
        network: Network | None = None,
        hooks: Sequence[RequestHook] = (),
        **fields: Unpack[ClientSettings],
    ) -> None:
        self._made_with = {"config": config, "network": network, "hooks": hooks, **fields}
        inner = TrioClient(config, network=network, hooks=hooks, **fields)
        super().__init__(inner, client=inner)

    @property
    def config(self) -> ClientConfig:
        """The settings."""
        return self._inner.config

    @property
    def client_id(self) -> str:
        """The client id, by which brokers know it."""
        return self._inner.client_id

    @property
    def is_open(self) -> bool:
        """Whether it may be used, in this process."""
        return self._inner.is_open

    def statistics(self) -> ClientStatistics:
        """Counts of its connections and requests. Thread-safe, and works in every state."""
        return self._inner.statistics()

    @property
    def trio_client(self) -> TrioClient:
        """The client of the trio surface behind it, for the roles that share it."""
        return self._inner
