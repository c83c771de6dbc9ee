"""The metrics and the health of a name server, under names of ours: RocketMQ's exporter asks brokers only."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from rocketpy._version import __version__
from rocketpy_broker_sim.metrics.extra import wants_metrics
from rocketpy_broker_sim.metrics.metric import Family, Kind, Metric
from rocketpy_broker_sim.namesrv.counting import name_of

if TYPE_CHECKING:
    import trio

    from rocketpy.remoting.network import Network
    from rocketpy_broker_sim.metrics.metric import Sample
    from rocketpy_broker_sim.namesrv.counting import CountingDispatcher
    from rocketpy_broker_sim.namesrv.name_server import NameServer

__all__ = ["NAMESRV_METRICS", "open_metrics"]

_BUILD = Metric("rocketmq_namesrv_build_info", "1; the label is the version of rocketpy", ("version",))
_START = Metric("rocketmq_namesrv_start_time_seconds", "When the name server was started, in seconds since 1970")
_HEALTHY = Metric("rocketmq_namesrv_healthy", "1 if /healthz says ok, else 0")
_BROKERS = Metric("rocketmq_namesrv_brokers", "Brokers that are registered, replicas included", ("cluster",))
_SILENT = Metric(
    "rocketmq_namesrv_broker_silent_seconds",
    "Seconds since a broker was last heard from",
    ("cluster", "broker", "brokerIP", "brokerId"),
)
_TOPICS = Metric("rocketmq_namesrv_topics", "Topics that brokers have registered")
_REQUESTS = Metric("rocketmq_namesrv_requests_total", "Requests since the start", ("request",), Kind.COUNTER)
_REFUSED = Metric(
    "rocketmq_namesrv_refused_requests_total",
    "Requests since the start that were answered with an error, those for unknown topics included",
    ("request",),
    Kind.COUNTER,
)
_CONNECTIONS = Metric("rocketmq_namesrv_connections", "Open connections")
_KEPT = Metric("rocketmq_namesrv_kept_bytes", "Bytes that the name server keeps for its peers, tables included")

NAMESRV_METRICS = (
    _BUILD,
    _START,
    _HEALTHY,
    _BROKERS,
    _SILENT,
    _TOPICS,
    _REQUESTS,
    _REFUSED,
    _CONNECTIONS,
    _KEPT,
)
"""All metrics of a name server, besides the one that says which of them are incomplete."""


async def open_metrics(
    server: NameServer, dispatcher: CountingDispatcher, network: Network, services: trio.Nursery
) -> None:
    """Show metrics and health, if the settings ask for that.

    Raises:
        TransportError: the address cannot be listened on.
    """
    if wants_metrics(server.config.metrics):
        from rocketpy_broker_sim.metrics.port import MetricsPort  # most name servers have none

        port = MetricsPort(
            server.config.metrics, {}, partial(_families, server, dispatcher), partial(_problems, server)
        )
        await services.start(port.serve, network)
        server.metrics_address = port.address


def _problems(server: NameServer) -> Iterator[str]:
    if server.remoting is None:
        yield "the name server starts: it does not listen yet"
    elif server.is_stopping:
        yield "the name server shuts down"
    elif server.is_warming_up():
        yield "the name server waits for brokers to register, and answers no routes yet"


def _families(server: NameServer, dispatcher: CountingDispatcher) -> Iterator[Family]:
    yield _BUILD.of([((__version__,), 1)])
    yield _START.value(server.boot_timestamp / 1000)
    yield _HEALTHY.value(0 if any(True for _ in _problems(server)) else 1)
    yield _BROKERS.of(_brokers(server))
    yield _SILENT.of(_silent(server))
    yield _TOPICS.value(len(server.routes.queues))
    yield _REQUESTS.of(((name_of(code),), count) for code, count in sorted(dispatcher.requests.items()))
    yield _REFUSED.of(((name_of(code),), count) for code, count in sorted(dispatcher.refused.items()))
    if server.remoting is not None:
        yield _CONNECTIONS.value(len(server.remoting.connections))
    yield _KEPT.value(server.memory.kept + server.memory.tables)


def _brokers(server: NameServer) -> Iterator[Sample]:
    counts: dict[str, int] = {}
    for cluster, _ in list(server.routes.live):
        counts[cluster] = counts.get(cluster, 0) + 1
    for cluster, count in sorted(counts.items()):
        yield (cluster,), count


def _silent(server: NameServer) -> Iterator[Sample]:
    for live in list(server.routes.live.values()):
        identity = live.identity
        labels = (identity.cluster, identity.broker_name, identity.address, str(identity.broker_id))
        yield labels, max(0.0, server.now() - live.last_update)
