"""AsyncioLocalCluster: a LocalCluster for asyncio code, with the same names. Methods that may wait are async.

It runs over TCP in the background thread of `BlockingLocalCluster`, so it belongs to no asyncio loop: it can be created
before the loop starts, and outlive it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar, Unpack

import trio

from rocketpy.errors import ClientClosedError, ConfigError
from rocketpy.portal import portal
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.cluster.blocking import BlockingLocalCluster
from rocketpy_broker_sim.cluster.entering import EnteredAsync
from rocketpy_broker_sim.cluster.waiting import TIMEOUT

if TYPE_CHECKING:
    from datetime import timedelta

    from rocketpy.message import Message, MessageExt, MessageQueue
    from rocketpy_broker_sim.broker.tables.locks import HeldLock
    from rocketpy_broker_sim.cluster.typed import ClusterSettings

__all__ = ["AsyncioLocalCluster"]

P = ParamSpec("P")
T = TypeVar("T")


def _need_asyncio() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigError(
            "AsyncioLocalCluster needs a running asyncio loop, and there is none here: use LocalCluster in trio, and "
            "BlockingLocalCluster in code without a loop"
        ) from None


async def _call(function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run an async function in the loop of the cluster. Cancelling the call cancels the function."""
    _need_asyncio()
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()
    scope = trio.CancelScope()

    async def run() -> None:
        try:
            with scope:
                outcome.set_result(await function(*args, **kwargs))
        except Exception as exc:  # noqa: BLE001 - raised again where it is awaited
            outcome.set_exception(exc)
        finally:
            if not outcome.done():
                outcome.set_exception(ClientClosedError("the call was cancelled because rocketpy is closing"))

    def begin() -> None:
        try:
            home.start_soon(run)
        except ClientClosedError as exc:
            outcome.set_exception(exc)

    home = portal()
    home.post(begin)
    try:
        return await asyncio.wrap_future(outcome)
    finally:
        if not outcome.done():
            home.post(scope.cancel)


class _Starting:
    """A start in a thread. It continues if its task is cancelled; then the cluster is closed again."""

    def __init__(self, cluster: BlockingLocalCluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._is_done = self._is_given_up = False

    def start(self) -> None:
        """Start the cluster, in the thread."""
        self._cluster.start()
        with self._lock:
            self._is_done = True
            is_given_up = self._is_given_up
        if is_given_up:
            self._cluster.close()

    def give_up(self) -> None:
        """Have the thread close the cluster after its start, or close it here if it has started already."""
        with self._lock:
            self._is_given_up = True
            is_done = self._is_done
        if is_done:
            self._cluster.close()


async def _soon(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a plain function, for `_call`, which takes async ones."""
    return function(*args, **kwargs)


class AsyncioLocalCluster(EnteredAsync):
    """Runs for the duration of an ``async with`` block.

    The arguments are those of `BlockingLocalCluster`.

    Attributes:
        blocking: The same cluster for blocking code; its `start` and `close` need no loop.
    """

    def __init__(
        self,
        brokers: int = 1,
        name_servers: int = 1,
        *,
        data: str | Path | None = None,
        insecure: bool = False,
        metrics_port: int | None = None,
        **settings: Unpack[ClusterSettings],
    ) -> None:
        self.blocking = BlockingLocalCluster(
            brokers, name_servers, data=data, insecure=insecure, metrics_port=metrics_port, **settings
        )
        self._cluster = self.blocking.trio_cluster

    def __repr__(self) -> str:
        """How many servers it has, and where clients find it."""
        return self._cluster._shown("AsyncioLocalCluster")

    @property
    def name_server_addresses(self) -> str:
        """The addresses to pass to clients as `namesrv`, such as ``127.0.0.1:9876;127.0.0.1:9877``."""
        return self.blocking.name_server_addresses

    @property
    def broker_addresses(self) -> list[str]:
        """Addresses of the brokers, including the last one of a broker that is stopped."""
        return self.blocking.broker_addresses

    @property
    def metrics_addresses(self) -> list[str]:
        """The addresses of `/metrics` and `/healthz`, first those of the brokers, then those of the name servers."""
        return self.blocking.metrics_addresses

    async def __aenter__(self) -> Self:
        """Start everything. See `BlockingLocalCluster.start`.

        Raises:
            ConfigError: no asyncio loop is running, or the cluster is already running.
        """
        _need_asyncio()
        starting = _Starting(self.blocking)
        try:
            await asyncio.to_thread(starting.start)
        except BaseException:
            starting.give_up()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop everything."""
        await asyncio.to_thread(self.blocking.close)

    # --- one server ------------------------------------------------------------------------------------

    async def stop_broker(self, number: int) -> None:
        """Stop a broker in good order. See `LocalCluster.stop_broker`."""
        await _call(self._cluster.stop_broker, number)

    async def kill_broker(self, number: int) -> None:
        """End a broker as SIGKILL would. See `LocalCluster.kill_broker`."""
        await _call(self._cluster.kill_broker, number)

    async def start_broker(self, number: int) -> None:
        """Start a broker again, on its port and with its data. See `LocalCluster.start_broker`."""
        await _call(self._cluster.start_broker, number)

    async def restart_broker(self, number: int) -> None:
        """Stop a broker and start it again."""
        await _call(self._cluster.restart_broker, number)

    async def stop_name_server(self, number: int) -> None:
        """Stop a name server. See `LocalCluster.stop_name_server`."""
        await _call(self._cluster.stop_name_server, number)

    async def start_name_server(self, number: int) -> None:
        """Start a name server again, on its port. See `LocalCluster.start_name_server`."""
        await _call(self._cluster.start_name_server, number)

    async def restart_name_server(self, number: int) -> None:
        """Stop a name server and start it again."""
        await _call(self._cluster.restart_name_server, number)

    # --- topics and messages ---------------------------------------------------------------------------

    async def create_topic(self, topic: str, *, queues: int = 4) -> None:
        """Create a topic at every broker that runs. See `LocalCluster.create_topic`."""
        await _call(self._cluster.create_topic, topic, queues=queues)

    async def send(self, message: Message) -> str:
        """Store a message without a producer; returns its id. See `LocalCluster.send`."""
        return await _call(self._cluster.send, message)

    async def messages(self, topic: str) -> list[MessageExt]:
        """All messages of a topic, in the order in which they were stored. Reading them consumes nothing."""
        return await _call(_soon, self._cluster.messages, topic)

    async def dead_letters(self, group: str) -> list[MessageExt]:
        """The messages in the dead-letter queue of a group, whose retries all failed."""
        return await _call(_soon, self._cluster.dead_letters, group)

    async def queue_locks(self, group: str) -> dict[MessageQueue, HeldLock]:
        """The member of the group that has locked each queue, and when the lock expires.

        Only orderly consumers lock queues.
        """
        return await _call(_soon, self._cluster.queue_locks, group)

    # --- waiting ---------------------------------------------------------------------------------------

    async def wait_messages(
        self, topic: str, count: int = 1, *, timeout: float | timedelta = TIMEOUT
    ) -> list[MessageExt]:
        """Wait until a topic has at least `count` messages, and return all of its messages.

        Raises:
            WaitTimeoutError: it has fewer after `timeout` seconds.
        """
        return await _call(self._cluster.wait_messages, topic, count, timeout=timeout)

    async def wait_dead_letters(
        self, group: str, count: int = 1, *, timeout: float | timedelta = TIMEOUT
    ) -> list[MessageExt]:
        """Wait until a group has at least `count` dead letters, and return all of them.

        Raises:
            WaitTimeoutError: there are fewer after `timeout` seconds.
        """
        return await _call(self._cluster.wait_dead_letters, group, count, timeout=timeout)

    async def wait_consumed(self, group: str, topic: str, *, timeout: float | timedelta = TIMEOUT) -> None:
        """Wait until a group has consumed all messages of a topic. See `LocalCluster.wait_consumed`.

        Raises:
            WaitTimeoutError: something is left after `timeout` seconds; `missing` of the error says what.
        """
        await _call(self._cluster.wait_consumed, group, topic, timeout=timeout)

    # --- what goes wrong -------------------------------------------------------------------------------

    async def cut_connections(self, broker: int | None = None) -> int:
        """Break all client connections of a broker, which keeps running. See `LocalCluster.cut_connections`."""
        return await _call(self._cluster.cut_connections, broker)

    # Plain functions, because they only record the fault.

    def refuse_sends(self, times: int = 1, *, code: int = ResponseCode.SYSTEM_BUSY, broker: int | None = None) -> None:
        """Have the next sends of producers refused. See `LocalCluster.refuse_sends`."""
        self.blocking.refuse_sends(times, code=code, broker=broker)

    def delay_sends(self, seconds: float | timedelta, times: int = 1, *, broker: int | None = None) -> None:
        """Have the next sends stored and answered later. See `LocalCluster.delay_sends`."""
        self.blocking.delay_sends(seconds, times, broker=broker)

    def lose_answers(self, times: int = 1, *, broker: int | None = None) -> None:
        """Have the next sends stored, but not answered. See `LocalCluster.lose_answers`."""
        self.blocking.lose_answers(times, broker=broker)

    def heal(self) -> None:
        """Cancel all faults of sends that have not happened yet."""
        self.blocking.heal()
