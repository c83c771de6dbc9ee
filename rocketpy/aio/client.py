"""MQClientInstance for asyncio: made to be shared by several producers and consumers with `client=`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Unpack, final

from rocketpy.aio.bridge import Bridge
from rocketpy.aio.lifetime import Lifetime
from rocketpy.client.instance import MQClientInstance as TrioClient

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
    """A client to share: ``async with rocketpy.aio.MQClientInstance(namesrv="127.0.0.1:9876") as client:``.

    The arguments are those of `rocketpy.MQClientInstance`; hooks are called in the background thread.
    """

    _surface: Final = "rocketpy.aio"

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
        super().__init__(inner, Bridge(f"client {inner.client_id}", inner))

    @property
    def config(self) -> ClientConfig:
        """The settings."""
        return self._inner.config

    @property
    def client_id(self) -> str:
        """How brokers know it."""
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
