"""BlockingLocalCluster: a LocalCluster for code without a loop.

It runs over TCP, in the same background thread as the blocking clients of this process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar, Unpack

from rocketpy.errors import ConfigError
from rocketpy.portal import Opened, portal
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.cluster.entering import EnteredPlain
from rocketpy_broker_sim.cluster.local import LocalCluster
from rocketpy_broker_sim.cluster.waiting import TIMEOUT

if TYPE_CHECKING:
    from datetime import timedelta

    from rocketpy.message import Message, MessageExt, MessageQueue
    from rocketpy_broker_sim.broker.tables.locks import HeldLock
    from rocketpy_broker_sim.cluster.typed import ClusterSettings

__all__ = ["BlockingLocalCluster"]

P = ParamSpec("P")
T = TypeVar("T")


def _in_loop(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a plain function in the loop of the cluster."""

    async def call() -> T:
        return function(*args, **kwargs)

    return portal().call(call)


class BlockingLocalCluster(EnteredPlain):
    """Runs for the duration of a ``with`` block, or from `start` to `close`. Thread-safe.

    Args:
        brokers: the number of brokers. All are masters, called broker-a, broker-b, and so on.
        name_servers: the number of name servers.
        data: the directory for all data; None keeps it in memory.
        insecure: whether `bind_address` may be reachable from other machines. The servers check no credentials.
        settings: settings of brokers and name servers in snake case, such as ``auto_create_topic_enable=False``.

    Raises:
        ConfigError: a setting is unknown, or its value is not usable.
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
        if "network" in settings:
            raise ConfigError("network: the blocking cluster always uses TCP; only LocalCluster has network='memory'")
        self._cluster = LocalCluster(
            brokers, name_servers, data=data, insecure=insecure, metrics_port=metrics_port, **settings
        )
        self._opened: Opened[LocalCluster] | None = None

    def __repr__(self) -> str:
        """How many servers it has, and where clients find it."""
        return self._cluster._shown("BlockingLocalCluster")

    @property
    def trio_cluster(self) -> LocalCluster:
        """The cluster behind it, which runs in the loop of the background thread."""
        return self._cluster

    @property
    def name_server_addresses(self) -> str:
        """The addresses to pass to clients as `namesrv`, such as ``127.0.0.1:9876;127.0.0.1:9877``."""
        return self._cluster.name_server_addresses

    @property
    def broker_addresses(self) -> list[str]:
        """Addresses of the brokers, including the last one of a broker that is stopped."""
        return [broker.address for broker in self._cluster.brokers]

    @property
    def metrics_addresses(self) -> list[str]:
        """The addresses of `/metrics` and `/healthz`, first those of the brokers, then those of the name servers."""
        return self._cluster.metrics_addresses

    def start(self) -> Self:
        """Start all servers. Returns when every name server knows every broker.

        Raises:
            ConfigError: the cluster is already running.
            StoreError: the directory is in use by another cluster, or cannot be read and written.
        """
        if self._opened is not None:
            raise ConfigError("the cluster is already running")
        self._opened = Opened(portal(), self._cluster).open()
        return self

    def close(self) -> None:
        """Stop all servers. Does nothing if the cluster is not running."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def __enter__(self) -> Self:
        """Start all servers."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop all servers."""
        self.close()

    # --- one server ------------------------------------------------------------------------------------

    def stop_broker(self, number: int) -> None:
        """Stop a broker in good order. See `LocalCluster.stop_broker`."""
        portal().call(self._cluster.stop_broker, number)

    def kill_broker(self, number: int) -> None:
        """End a broker as SIGKILL would. See `LocalCluster.kill_broker`."""
        portal().call(self._cluster.kill_broker, number)

    def start_broker(self, number: int) -> None:
        """Start a broker again, on its port and with its data. See `LocalCluster.start_broker`."""
        portal().call(self._cluster.start_broker, number)

    def restart_broker(self, number: int) -> None:
        """Stop a broker and start it again."""
        portal().call(self._cluster.restart_broker, number)

    def stop_name_server(self, number: int) -> None:
        """Stop a name server. See `LocalCluster.stop_name_server`."""
        portal().call(self._cluster.stop_name_server, number)

    def start_name_server(self, number: int) -> None:
        """Start a name server again, on its port. See `LocalCluster.start_name_server`."""
        portal().call(self._cluster.start_name_server, number)

    def restart_name_server(self, number: int) -> None:
        """Stop a name server and start it again."""
        portal().call(self._cluster.restart_name_server, number)

    # --- topics and messages ---------------------------------------------------------------------------

    def create_topic(self, topic: str, *, queues: int = 4) -> None:
        """Create a topic at every broker that runs. See `LocalCluster.create_topic`."""
        portal().call(self._cluster.create_topic, topic, queues=queues)

    def send(self, message: Message) -> str:
        """Store a message without a producer; returns its id. See `LocalCluster.send`."""
        return portal().call(self._cluster.send, message)

    def messages(self, topic: str) -> list[MessageExt]:
        """All messages of a topic, in the order in which they were stored. Reading them consumes nothing."""
        return _in_loop(self._cluster.messages, topic)

    def dead_letters(self, group: str) -> list[MessageExt]:
        """The messages in the dead-letter queue of a group, whose retries all failed."""
        return _in_loop(self._cluster.dead_letters, group)

    def queue_locks(self, group: str) -> dict[MessageQueue, HeldLock]:
        """The member of the group that has locked each queue, and when the lock expires.

        Only orderly consumers lock queues.
        """
        return _in_loop(self._cluster.queue_locks, group)

    # --- waiting ---------------------------------------------------------------------------------------

    def wait_messages(self, topic: str, count: int = 1, *, timeout: float | timedelta = TIMEOUT) -> list[MessageExt]:
        """Wait until a topic has at least `count` messages, and return all of its messages.

        Raises:
            WaitTimeoutError: it has fewer after `timeout` seconds.
        """
        return portal().call(self._cluster.wait_messages, topic, count, timeout=timeout)

    def wait_dead_letters(
        self, group: str, count: int = 1, *, timeout: float | timedelta = TIMEOUT
    ) -> list[MessageExt]:
        """Wait until a group has at least `count` dead letters, and return all of them.

        Raises:
            WaitTimeoutError: there are fewer after `timeout` seconds.
        """
        return portal().call(self._cluster.wait_dead_letters, group, count, timeout=timeout)

    def wait_consumed(self, group: str, topic: str, *, timeout: float | timedelta = TIMEOUT) -> None:
        """Wait until a group has consumed all messages of a topic. See `LocalCluster.wait_consumed`.

        Raises:
            WaitTimeoutError: something is left after `timeout` seconds; `missing` of the error says what.
        """
        portal().call(self._cluster.wait_consumed, group, topic, timeout=timeout)

    # --- what goes wrong -------------------------------------------------------------------------------

    def refuse_sends(self, times: int = 1, *, code: int = ResponseCode.SYSTEM_BUSY, broker: int | None = None) -> None:
        """Have the next sends of producers refused. See `LocalCluster.refuse_sends`."""
        _in_loop(self._cluster.refuse_sends, times, code=code, broker=broker)

    def delay_sends(self, seconds: float | timedelta, times: int = 1, *, broker: int | None = None) -> None:
        """Have the next sends stored and answered later. See `LocalCluster.delay_sends`."""
        _in_loop(self._cluster.delay_sends, seconds, times, broker=broker)

    def lose_answers(self, times: int = 1, *, broker: int | None = None) -> None:
        """Have the next sends stored, but not answered. See `LocalCluster.lose_answers`."""
        _in_loop(self._cluster.lose_answers, times, broker=broker)

    def heal(self) -> None:
        """Cancel all faults of sends that have not happened yet."""
        _in_loop(self._cluster.heal)

    def cut_connections(self, broker: int | None = None) -> int:
        """Break all client connections of a broker, which keeps running. See `LocalCluster.cut_connections`."""
        return portal().call(self._cluster.cut_connections, broker)
