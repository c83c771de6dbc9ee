"""Opening: how a consumer starts and ends, with a client of its own or a shared one."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rocketpy.client.instance import MQClientInstance
from rocketpy.client.lifecycle import Lifecycle
from rocketpy.client.reopening import Reopenable
from rocketpy.client.sharing import check_shared
from rocketpy.services import open_services

if TYPE_CHECKING:
    from rocketpy.config import ClientConfig
    from rocketpy.consumer.background import Background
    from rocketpy.remoting.network import Network

__all__ = ["Opening"]


class Opening(Reopenable):
    """What consumers of every kind have in common.

    Args:
        what: how error texts name it.
        config: the settings of the client that it has of its own.
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
        """In the child of a fork, make it as new, with what it consumes: ``async with consumer.reopen():``.

        A shared client goes first.

        Raises:
            ClientClosedError: this is the process in which it was made.
        """
        self._make_again(crossed_fork=self._lifecycle.crossed_fork)
        return self

    # --- life -----------------------------------------------------------------------------------------

    @abstractmethod
    async def _open(self, stack: AsyncExitStack) -> None:
        """Enter what the consumer is made of; the client is open."""

    async def _run_background(self, stack: AsyncExitStack, background: Background) -> None:
        """Start what goes on in the background; it closes with the stack."""
        nursery = await stack.enter_async_context(open_services())
        await nursery.start(background.run)
        stack.push_async_callback(background.close)

    def _failed(self) -> None:
        """The start failed: forget what was made for it."""

    async def __aenter__(self) -> Self:
        """Start.

        Raises:
            ClientClosedError: it was started before, or the shared client is not open.
            ConfigError: the shared client has a consumer of this group already.
            FilterRefusedError: a broker cannot filter as it is wanted by SQL.
            NameServerUnreachableError: no name server answers.
            OffsetStoreError: the file or the store that keeps the offsets of a push consumer cannot be used.
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
                # The old one was closed on the way out, for good.
                self.client = MQClientInstance(self._client_config, network=self._network)
            self._lifecycle.failed()
            raise
        self._lifecycle.opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Close, in order."""
        stack, self._stack = self._stack, None
        if stack is None or not self._lifecycle.closing():
            return None
        try:
            return await stack.__aexit__(kind, error, traceback)
        finally:
            self._lifecycle.closed()
