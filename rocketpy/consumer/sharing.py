"""Sharing: what push and lite pull consumers have in common, which share queues with their group."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

from rocketpy.client.arguments import checked_seconds
from rocketpy.client.lifecycle import State
from rocketpy.client.opening import Opening
from rocketpy.consumer.background import Background
from rocketpy.consumer.current import Current
from rocketpy.errors import RequestTimeoutError
from rocketpy.services import open_services

if TYPE_CHECKING:
    from collections.abc import Collection
    from contextlib import AsyncExitStack
    from datetime import timedelta

    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config.sharing import SharingConfig
    from rocketpy.consumer.rebalancing.rebalance import Rebalance
    from rocketpy.message import MessageQueue
    from rocketpy.remoting.network import Network

__all__ = ["Sharing"]

R = TypeVar("R", bound=Background)


class Sharing(Opening, Generic[R]):
    """A consumer that shares queues with its group.

    Args:
        config: the consumer's settings.
        client: a client to share; None for one of its own.
        network: where a client of its own gets its connections.
    """

    def __init__(self, config: SharingConfig, client: MQClientInstance | None, network: Network | None) -> None:
        super().__init__(f"consumer {config.group}", config, client, network)
        self._current: Current[R] = Current(self._lifecycle)

    @abstractmethod
    def _wanted_topics(self) -> Collection[str]:
        """The topics that the consumer subscribes to, or has chosen queues of."""

    async def _run_background(self, stack: AsyncExitStack, background: Background) -> None:
        """Start the background tasks, which close with the stack."""
        nursery = await stack.enter_async_context(open_services())
        await nursery.start(background.run)
        stack.push_async_callback(background.close)

    # --- while it runs --------------------------------------------------------------------------------

    @property
    def _running(self) -> R | None:
        return self._current.running

    def _failed(self) -> None:
        self._current.failed()

    def _subscriptions_changed(self) -> None:
        """The subscriptions or assigned queues have changed. Thread-safe."""
        running = self._running
        if running is not None:  # otherwise the start reads them
            running.rebalance.note_change()
            running.in_loop(running.subscriptions_changed)

    # --- which queues ---------------------------------------------------------------------------------

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The queues that this consumer has now; none when it is closed, or was opened before a fork."""
        running = self._current.shown
        return () if running is None or self._lifecycle.state is State.CLOSED else running.assignment.queues()

    async def wait_assigned(self, timeout: float | timedelta | None = None) -> tuple[MessageQueue, ...]:
        """Wait until this consumer has at least one queue. With more members than queues that may never happen.

        Args:
            timeout: seconds to wait; None waits without end.

        Raises:
            ConfigError: an argument cannot be used.
            RequestTimeoutError: it took longer than `timeout` seconds.
            ClientClosedError: the consumer is not open.
            ServiceCrashedError: a bug in the background stopped the consumer.
        """
        patience = math.inf if timeout is None else checked_seconds("timeout", timeout)
        rebalance = self._check_waiting().rebalance
        with trio.move_on_after(patience):
            await trio.lowlevel.checkpoint()
            while not self.assignment:
                self._check_waiting()
                await rebalance.wait_round()
        if not self.assignment:
            raise RequestTimeoutError(
                f"{self._lifecycle.what} got no queue within {patience:g} s: "
                + (rebalance.missing() or self._why_none(rebalance)),
                timeout=patience,
            )
        return self.assignment

    def _why_none(self, rebalance: Rebalance) -> str:
        if not self._wanted_topics():
            return "nothing is subscribed or assigned"
        return "other members have all queues" if rebalance.balanced else "its share of the queues is not known yet"

    def _check_waiting(self) -> R:
        """The running part; refuses use if the consumer has crashed, is not open, or belongs to another loop."""
        self._current.check_crash()
        self._lifecycle.check_here()
        self.client.check_open()
        return self._current.check_running()
