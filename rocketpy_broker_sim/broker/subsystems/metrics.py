"""The port with metrics as a subsystem of the broker. It asks all parts, and knows none of them by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from rocketpy_broker_sim.broker.metrics.view import MetricsView
from rocketpy_broker_sim.broker.subsystem import Subsystem
from rocketpy_broker_sim.metrics.extra import wants_metrics

if TYPE_CHECKING:
    import trio

    from rocketpy.remoting.network import Network
    from rocketpy_broker_sim.broker.identity import Identity
    from rocketpy_broker_sim.broker.subsystems.clients import Clients
    from rocketpy_broker_sim.broker.subsystems.counting import Counting
    from rocketpy_broker_sim.broker.subsystems.storing import Storing
    from rocketpy_broker_sim.broker.subsystems.tables import Tables
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.metrics.metric import Family
    from rocketpy_broker_sim.metrics.port import MetricsPort

__all__ = ["Metrics", "view_of"]


def view_of(identity: Identity, storing: Storing, tables: Tables, clients: Clients, counting: Counting) -> MetricsView:
    """What the metrics of topics and groups are read from."""
    return MetricsView(
        identity=identity,
        reads=storing.store.reads,
        topics=tables.topics,
        groups=tables.groups,
        offsets=tables.offsets,
        consumers=clients.consumers,
        producers=clients.producers,
        flows=counting.flows,
    )


class Metrics(Subsystem):
    """Shows `/metrics` and `/healthz` if the settings ask for that. A broker without does not load what it takes.

    Args:
        config: the settings.
        network: where it listens.
        view: what the metrics of topics and groups are read from.
        parts: the parts of the broker, all of them.
        info: returns the answer to GET_BROKER_RUNTIME_INFO.

    Raises:
        ConfigError: the settings ask for it, and a package of the extra is missing.
    """

    def __init__(
        self,
        config: BrokerConfig,
        network: Network,
        view: MetricsView,
        parts: Callable[[], Iterable[Subsystem]],
        info: Callable[[], Mapping[str, str]],
    ) -> None:
        self._config = config
        self._network = network
        self._view = view
        self._parts = parts
        self._info = info
        self._port: MetricsPort | None = None
        self._is_wanted = wants_metrics(config.metrics)

    @property
    def address(self) -> str:
        """Where it listens, "host:port"; empty if it does not."""
        return self._port.address if self._port is not None else ""

    async def open(self, services: trio.Nursery) -> None:
        """Listen, before any client can: `/healthz` says that the broker starts."""
        if self._is_wanted:
            from rocketpy_broker_sim.metrics.port import MetricsPort  # most brokers have none

            common = {"cluster": self._config.broker_cluster_name, "broker": self._config.broker_name}
            most = self._config.metrics_otel_cardinality_limit
            self._port = MetricsPort(self._config.metrics, common, self._families, self._problems, most)
            await services.start(partial(self._port.serve, self._network))

    def _families(self) -> Iterator[Family]:
        for part in self._parts():
            yield from part.families()

    def _problems(self) -> Iterator[str]:
        for part in self._parts():
            yield from part.problems()

    def families(self) -> Iterator[Family]:
        """What no part knows by itself: topics and groups, and the answer to GET_BROKER_RUNTIME_INFO."""
        from rocketpy_broker_sim.broker.metrics.groups import group_families
        from rocketpy_broker_sim.broker.metrics.runtime import runtime_families
        from rocketpy_broker_sim.broker.metrics.topics import topic_families
        from rocketpy_broker_sim.broker.metrics.whole import whole_families

        info = self._info()
        yield from whole_families(info, any(True for _ in self._problems()))
        yield from runtime_families(self._view.identity.address, info)
        yield from topic_families(self._view)
        yield from group_families(self._view)
