"""BlockingLocalCluster: a LocalCluster for code without a loop.

It runs over TCP in the background thread that the blocking clients of this process use too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar, Unpack

from rocketpy.errors import ConfigError
from rocketpy.portal import Opened, portal
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.cluster.contents import TIMEOUT
from rocketpy_broker_sim.cluster.entering import EnteredPlain
from rocketpy_broker_sim.cluster.local import LocalCluster

if TYPE_CHECKING:
    from datetime import timedelta

    from rocketpy.message import Message, MessageExt, MessageQueue
    from rocketpy_broker_sim.broker.tables.locks import HeldLock
    from rocketpy_broker_sim.cluster.typed import ClusterSettings

__all__ = ["BlockingLocalCluster"]

P = ParamSpec("P")
T = TypeVar("T")


def _in_loop(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a plain function where the cluster runs."""

    async def call() -> T:
        return function(*args, **kwargs)

    return portal().call(call)


class BlockingLocalCluster(EnteredPlain):
    """Runs while the block of ``with`` does, or from `start` to `close`. Any thread may use it.

    Args:
        brokers: how many brokers, all of them masters: broker-a, broker-b, and so on.
        name_servers: how many name servers.
        data: the directory where everything is kept; in memory when None.
        insecure: whether `bind_address` may be one that other machines reach. There are no credentials.
        settings: those of brokers and name servers in snake case.

    Raises:
        ConfigError: a setting is not known or not usable.
    """

    def __init__(
        self,
        brokers: int = 1,
        name_servers: int = 1,
        *,
        data: str | Path | None = None,
        insecure: bool = False,
        **settings: Unpack[ClusterSettings],
    ) -> None:
        if "network" in settings:
            raise ConfigError("network: the blocking cluster speaks TCP; LocalCluster can keep its bytes in memory")
        self._cluster = LocalCluster(brokers, name_servers, data=data, insecure=insecure, **settings)
        self._opened: Opened[LocalCluster] | None = None

    def __repr__(self) -> str:
        """What it is made of, and where clients find it."""
        return self._cluster._shown("BlockingLocalCluster")

    @property
    def trio_cluster(self) -> LocalCluster:
        """The cluster behind it, which lives in the loop of the background thread."""
        return self._cluster

    @property
    def name_server_addresses(self) -> str:
        """What clients are told as `namesrv`, such as ``127.0.0.1:9876;127.0.0.1:9877``."""
        return self._cluster.name_server_addresses

    @property
    def broker_addresses(self) -> list[str]:
        """Where the brokers listen; of one that is stopped, where it did."""
        return [broker.address for broker in self._cluster.brokers]

    def start(self) -> Self:
        """Start everything; returns when every name server knows every broker.

        Raises:
            ConfigError: it runs already.
            StoreError: the directory is in use by another cluster, or cannot be read and written.
        """
        if self._opened is not None:
            raise ConfigError("the cluster runs already")
        self._opened = Opened(portal(), self._cluster).open()
        return self

    def close(self) -> None:
        """Stop everything; nothing happens when it does not run."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def __enter__(self) -> Self:
        """Start everything."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop everything."""
        self.close()

    # --- one server ------------------------------------------------------------------------------------

    def stop_broker(self, number: int) -> None:
        """Stop a broker as its operator would. See `LocalCluster.stop_broker`."""
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
        """Every message of a topic, in the order in which they were stored; nothing is consumed by that."""
        return _in_loop(self._cluster.messages, topic)

    def dead_letters(self, group: str) -> list[MessageExt]:
        """The messages that a group could not consume, however often it tried."""
        return _in_loop(self._cluster.dead_letters, group)

    def queue_locks(self, group: str) -> dict[MessageQueue, HeldLock]:
        """Which member of a group has locked which queue, and for how long; only orderly consumers lock queues."""
        return _in_loop(self._cluster.queue_locks, group)

    # --- waiting ---------------------------------------------------------------------------------------

    def wait_messages(self, topic: str, count: int = 1, *, timeout: float | timedelta = TIMEOUT) -> list[MessageExt]:
        """Wait until a topic holds at least so many messages; returns all that it holds.

        Raises:
            WaitTimeoutError: it holds fewer after `timeout` seconds.
        """
        return portal().call(self._cluster.wait_messages, topic, count, timeout=timeout)

    def wait_dead_letters(
        self, group: str, count: int = 1, *, timeout: float | timedelta = TIMEOUT
    ) -> list[MessageExt]:
        """Wait until a group has at least so many dead letters; returns them all.

        Raises:
            WaitTimeoutError: there are fewer after `timeout` seconds.
        """
        return portal().call(self._cluster.wait_dead_letters, group, count, timeout=timeout)

    def wait_consumed(self, group: str, topic: str, *, timeout: float | timedelta = TIMEOUT) -> None:
        """Wait until a group has consumed everything of a topic. See `LocalCluster.wait_consumed`.

        Raises:
            WaitTimeoutError: something is left after `timeout` seconds; `missing` of the error says what.
        """
        portal().call(self._cluster.wait_consumed, group, topic, timeout=timeout)

    # --- what goes wrong -------------------------------------------------------------------------------

    def refuse_sends(self, times: int = 1, *, code: int = ResponseCode.SYSTEM_BUSY, broker: int | None = None) -> None:
        """Let the next sends of producers be refused. See `LocalCluster.refuse_sends`."""
        _in_loop(self._cluster.refuse_sends, times, code=code, broker=broker)

    def delay_sends(self, seconds: float | timedelta, times: int = 1, *, broker: int | None = None) -> None:
        """Let the next sends be carried out and answered that much later. See `LocalCluster.delay_sends`."""
        _in_loop(self._cluster.delay_sends, seconds, times, broker=broker)

    def lose_answers(self, times: int = 1, *, broker: int | None = None) -> None:
        """Let the next sends be stored and not answered. See `LocalCluster.lose_answers`."""
        _in_loop(self._cluster.lose_answers, times, broker=broker)

    def heal(self) -> None:
        """Let no more sends go wrong."""
        _in_loop(self._cluster.heal)

    def cut_connections(self, broker: int | None = None) -> int:
        """Break all connections from clients to a broker, which runs on. See `LocalCluster.cut_connections`."""
        return portal().call(self._cluster.cut_connections, broker)
