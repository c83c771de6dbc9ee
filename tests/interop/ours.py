"""Our own name server and broker for Apache's clients and servers: over TCP on free loopback ports.

Every server has a trio loop in a thread of its own, so that a test may block or run a loop too. Not here: the
commands `rocketpy-namesrv` and `rocketpy-broker`, which are tested as the processes they are.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rocketpy.portal import Portal
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.config import broker_config, namesrv_config
from rocketpy_broker_sim.namesrv import open_name_server
from rocketpy_broker_sim.store.memory import MemoryStorage
from tests.interop import probe
from tests.interop.settings import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

T = TypeVar("T")

SMALL_FILES = {"mapped_file_size_commit_log": 16 * 1024 * 1024, "mapped_file_size_consume_queue": 20 * 20_000}
PATIENCE = {"wait_time_mills_in_send_queue": 5_000}
"""As with Apache's brokers here: two cores carry both sides of every test."""


@dataclass(frozen=True)
class OurServer:
    """A server that is up."""

    name: str
    address: str


@dataclass(frozen=True)
class OurCluster:
    """A name server and its brokers, all ours."""

    name_server: OurServer
    brokers: tuple[OurServer, ...]

    @property
    def namesrv(self) -> str:
        """What a client is given."""
        return self.name_server.address

    def create_topic(self, topic: str, *, queues: int = 4) -> None:
        """Create a topic on every broker and wait until clients can find it."""
        for each in self.brokers:
            probe.create_topic(each.address, topic, queues=queues)
        probe.wait_route(self.namesrv, topic, brokers=len(self.brokers))


@contextmanager
def our_name_server(**settings: Any) -> Iterator[OurServer]:
    """Run our name server."""
    with _running(open_name_server(namesrv_config(listen_port=0, **settings))) as server:
        yield OurServer("namesrv", server.address)


@contextmanager
def our_broker(
    namesrv: str, *, name: str = "broker-a", home: Path | None = None, **settings: Any
) -> Iterator[OurServer]:
    """Run our broker, registered at the name servers when this yields.

    Args:
        namesrv: One or more name-server addresses joined by semicolons, Apache's or ours.
        name: Its brokerName.
        home: The directory of its store; in memory without one.
        settings: Of the broker, beside or instead of the harness's own.
    """
    own: dict[str, Any] = {"listen_port": 0, "broker_name": name, "broker_cluster_name": CLUSTER}
    if home is not None:
        own["store_path_root_dir"] = str(home)
    config = broker_config(**{**own, "namesrv_addr": namesrv, **SMALL_FILES, **PATIENCE, **settings})
    with _running(open_broker(config, storage=MemoryStorage() if home is None else None)) as broker:
        for each in namesrv.split(";"):
            probe.wait_registered(each, name)
        yield OurServer(name, broker.address)


@contextmanager
def our_cluster(*, brokers: int = 1, **settings: Any) -> Iterator[OurCluster]:
    """Run our name server with brokers `broker-a`, `broker-b`, ..."""
    with ExitStack() as stack:
        head = stack.enter_context(our_name_server())
        names = [f"broker-{chr(ord('a') + index)}" for index in range(brokers)]
        started = [our_broker(head.address, name=name, **settings) for name in names]
        yield OurCluster(head, tuple(stack.enter_context(each) for each in started))


@contextmanager
def _running(manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter a manager in a loop of its own."""
    home = Portal()
    home.start()
    try:
        opened = home.open(manager)
        try:
            yield opened.value
        finally:
            opened.close()
    finally:
        home.close()
