"""Sharing: what push and lite pull consumers have in common, which share queues with their group."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

from rocketpy.client.lifecycle import State
from rocketpy.consumer.arguments import checked_seconds
from rocketpy.consumer.background import Background
from rocketpy.consumer.opening import Opening
from rocketpy.errors import ConfigError, RequestTimeoutError, ServiceCrashedError

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import timedelta

    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config.sharing import SharingConfig
    from rocketpy.consumer.rebalance import Rebalance
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
        self._running: R | None = None

    @abstractmethod
    def _wanted_topics(self) -> Collection[str]:
        """The topics that the consumer subscribes to, or has chosen queues of."""

    # --- while it runs --------------------------------------------------------------------------------

    def _failed(self) -> None:
        self._running = None

    @property
    def _shown(self) -> R | None:
        """What `status` and `assignment` show: nothing in the child of a fork, whose copy stands still."""
        return None if self._lifecycle.crossed_fork else self._running

    @property
    def _crash(self) -> ServiceCrashedError | None:
        """The bug in the background that ended the consumer, None if none did."""
        return None if self._running is None else self._running.crash

    def check_crash(self) -> None:
        """Refuse use if a bug in the background ended the consumer. For any thread.

        Raises:
            ServiceCrashedError: it did. A new error for each caller, so that tracebacks do not pile up on one.
        """
        if self._crash is not None:
            raise ServiceCrashedError(f"{self._lifecycle.what} has crashed: {self._crash}") from self._crash

    def check_may_commit(self) -> None:
        """Refuse to commit if commits wait for the caller. For any thread.

        Raises:
            ConfigError: the caller is `write` of the consumer's `offset_store`.
        """
        if self._running is not None and self._running.calls.is_writing:
            raise ConfigError(
                f"commit() in `write` of the offset store of {self._lifecycle.what} would wait for that very write: "
                "remove the call, because changed offsets are written anyway, or call it outside of `write`"
            )

    def _check_running(self) -> R:
        if self._running is None:
            self._lifecycle.check_open()
            raise AssertionError("an open consumer runs")
        return self._running

    def _subscriptions_changed(self) -> None:
        """The subscriptions or assigned queues have changed. For any thread."""
        running = self._running
        if running is not None:  # otherwise the start reads them
            running.rebalance.note_change()
            running.in_loop(running.subscriptions_changed)

    # --- which queues ---------------------------------------------------------------------------------

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The queues that this consumer has now; none when it is closed, or was opened before a fork."""
        running = self._shown
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
        self.check_crash()
        self._lifecycle.check_here()
        self.client.check_open()
        return self._check_running()

    # --- what the client asks of a consumer -------------------------------------------------------------

    def rebalance_now(self) -> None:
        """The members of the group have changed."""
        if self._running is not None:
            self._running.rebalance.soon()

    def on_route_changed(self, topic: str) -> None:
        """The route of a topic has changed."""
        if topic in self._wanted_topics():
            self.rebalance_now()

    def client_closing(self) -> None:
        """A shared client closes before the consumer does: stop, as nothing can be committed any more."""
        if self._running is None:
            return
        if self.client.crash is not None:
            self._running.fail(self.client.crash)
        self._running.stop_pulling()
