"""Opening: how a consumer or an Admin starts and closes, with its own client or a shared one."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rocketpy.client.instance import MQClientInstance
from rocketpy.client.lifecycle import Lifecycle
from rocketpy.client.runnable import Runnable
from rocketpy.client.shared_client import check_shared

if TYPE_CHECKING:
    from rocketpy.config import ClientConfig
    from rocketpy.remoting.network import Network

__all__ = ["Opening"]


class Opening(Runnable):
    """What consumers of every kind and Admin have in common.

    Args:
        what: how error texts name it.
        config: the settings of its own client.
        client: a client to share; None for one of its own.
        network: where a client of its own gets its connections.

    Raises:
        ConfigError: the client cannot be shared.
    """

    def __init__(
        self, what: str, config: ClientConfig, client: MQClientInstance | None, network: Network | None
    ) -> None:
        check_shared(client, network)
        self._owns_client = client is None
        self._network = network
        self._client_config = config
        self.client = MQClientInstance(config, network=network) if client is None else client
        self._lifecycle = Lifecycle(what)
        self._stack: AsyncExitStack | None = None

    def reopen(self) -> Self:
        """Make it new in the child of a fork, a consumer with its subscriptions: ``async with consumer.reopen():``.

        Reopen a shared client first.

        Raises:
            ClientClosedError: this is the process in which it was made.
        """
        self._make_again(crossed_fork=self._lifecycle.crossed_fork)
        return self

    # --- life -----------------------------------------------------------------------------------------

    @abstractmethod
    async def _open(self, stack: AsyncExitStack) -> None:
        """Enter its parts into the stack; the client is already open."""

    def _failed(self) -> None:
        """Forget everything made for a start that failed."""

    async def __aenter__(self) -> Self:
        """Start it.

        Raises:
            ClientClosedError: it was started before, or the shared client is not open.
            ConfigError: the shared client already has a consumer of this group.
            BrokerError: every broker of the subscribed topics refuses the consumer's heartbeats.
            FilterRefusedError: a broker refuses a subscription's SQL expression.
            NameServerUnreachableError: no name server answers.
            OffsetStoreError: the file or the `offset_store` that keeps the offsets cannot be used.
        """
        if not self._owns_client:
            self.client.check_here()
        self._lifecycle.begin()
        try:
            async with AsyncExitStack() as stack:
                if self._owns_client:
                    await stack.enter_async_context(self.client)
                await self._open(stack)
                self._stack = stack.pop_all()
        except BaseException:  # cancellation too: what did not start may be started again
            self._failed()
            if self._owns_client:
                # The old client was closed on the way out, for good.
                self.client = MQClientInstance(self._client_config, network=self._network)
            self._lifecycle.failed()
            raise
        self._lifecycle.opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Close it, in order."""
        stack, self._stack = self._stack, None
        if stack is None or not self._lifecycle.closing():
            return None
        try:
            return await stack.__aexit__(kind, error, traceback)
        finally:
            self._lifecycle.closed()
