"""The statistics of a client: plain records, made on request, in any thread."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, ClassVar

import attrs

from rocketpy.histogram import Latency
from rocketpy.reprs import Short

if TYPE_CHECKING:
    from rocketpy.client.data_links import DataConnection, DataLinks
    from rocketpy.client.heartbeat import Heartbeats
    from rocketpy.client.requests import Requests
    from rocketpy.client.routes.routing import RouteTable
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.pool import ConnectionPool
    from rocketpy.remoting.request_meter import RequestFigures, RequestMeter
    from rocketpy.remoting.statistics import ConnectionStatistics

__all__ = ["ClientStatistics", "PeerStatistics", "in_flight", "statistics"]


@attrs.frozen(kw_only=True, repr=False)
class PeerStatistics(Short):
    """The open connections to one broker or name server."""

    connections: int
    """Two for a broker to which threads or asyncio send, one of them for their messages."""
    in_flight: int
    """Requests that wait for an answer, including pulls that the broker holds."""
    sent_bytes: int
    """Bytes sent over the connections that are open now."""
    received_bytes: int
    """Bytes received over the connections that are open now."""
    requests: int
    """Requests it has answered, other than sends and pulls."""
    requests_per_second: float
    """Such requests answered per second, in the last minute."""
    latency: Latency
    """Seconds from such a request to its answer, in the last minute."""


@attrs.frozen(kw_only=True, repr=False)
class ClientStatistics(Short):
    """The connections and requests of a client, and counters since it was created."""

    _shown_first: ClassVar[tuple[str, ...]] = ("connections", "requests", "failed_requests", "in_flight")

    connections: int
    """Open connections to brokers and name servers."""
    dialling: int
    """Addresses to which connections are being opened."""
    dials: int
    """Attempts to open a connection."""
    failed_dials: int
    """Attempts to open a connection that failed."""
    addresses_failing: int
    """Addresses whose last dial failed, or whose last connection ended without a byte from the peer."""
    in_flight: int
    """Requests that wait for an answer, including pulls that brokers hold."""
    topics: int
    """Topics whose routes are known."""
    brokers: int
    """Brokers in these routes."""
    heartbeats: int
    """Heartbeats sent."""
    failed_heartbeats: int
    """Heartbeats without an answer, or refused."""
    brokers_answering: int
    """Brokers that answered the last heartbeat."""
    replies_awaited: int
    """Calls of `request` that wait for a reply."""
    replies: int
    """Calls of `request` that got one."""
    late_replies: int
    """Replies that arrived after their request had timed out or was cancelled."""
    unknown_replies: int
    """Replies to requests that this client did not make, or that had a reply already."""
    requests: int
    """Answered requests other than sends and pulls, such as heartbeats and those for routes, locks and offsets. The
    statistics of producers and consumers have sends and pulls."""
    failed_requests: int
    """Such requests without an answer."""
    requests_per_second: float
    """Such requests answered per second, in the last minute."""
    latency: Latency
    """Seconds from such a request to its answer, in the last minute. Connecting is not part of it."""
    peers: Mapping[str, PeerStatistics]
    """The brokers and name servers with open connections, by address."""


def statistics(
    pool: ConnectionPool, data_links: DataLinks, routes: RouteTable, heartbeats: Heartbeats, requests: Requests
) -> ClientStatistics:
    """Return the statistics of the client that has these parts. Thread-safe."""
    dials = pool.statistics()
    peers = _peers(pool.connections(), data_links.all(), pool.meter)
    answers, replies = pool.meter.total(), requests.counts()
    return ClientStatistics(
        connections=sum(peer.connections for peer in peers.values()),
        dialling=dials.dialling,
        dials=dials.dials,
        failed_dials=dials.failures,
        addresses_failing=dials.addresses_failing,
        in_flight=sum(peer.in_flight for peer in peers.values()),
        topics=len(routes.topics()),
        brokers=len(routes.brokers()),
        heartbeats=heartbeats.sent,
        failed_heartbeats=heartbeats.failed,
        brokers_answering=len(heartbeats.answering),
        replies_awaited=replies.pending,
        replies=replies.replied,
        late_replies=replies.late,
        unknown_replies=replies.unknown,
        requests=answers.answered,
        failed_requests=answers.failed,
        requests_per_second=answers.per_second,
        latency=answers.latency,
        peers=peers,
    )


def _peers(loop: list[Connection], data: list[DataConnection], meter: RequestMeter) -> dict[str, PeerStatistics]:
    beside: dict[str, list[DataConnection]] = {}
    for link in data:
        if link.error is None:
            beside.setdefault(link.address, []).append(link)
    own = {connection.address: connection.statistics() for connection in loop}
    return {
        address: _peer(own.get(address), beside.get(address, ()), meter.of(address))
        for address in sorted({*own, *beside})
    }


def _peer(
    own: ConnectionStatistics | None, links: Collection[DataConnection], requests: RequestFigures
) -> PeerStatistics:
    return PeerStatistics(
        connections=(own is not None) + len(links),
        in_flight=(own.in_flight if own else 0) + sum(map(len, links)),
        sent_bytes=(own.sent_bytes if own else 0) + sum(link.sent_bytes for link in links),
        received_bytes=(own.received_bytes if own else 0) + sum(link.received_bytes for link in links),
        requests=requests.answered,
        requests_per_second=requests.per_second,
        latency=requests.latency,
    )


def in_flight(pool: ConnectionPool, data_links: DataLinks, address: str | None) -> int:
    """Requests to an address that wait for an answer. Thread-safe."""
    own = [link for link in pool.connections() if link.address == address]
    beside = [link for link in data_links.all() if link.address == address and link.error is None]
    return sum(link.statistics().in_flight for link in own) + sum(map(len, beside))
