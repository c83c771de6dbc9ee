"""What a client has open and under way: plain records, made on request, in any thread."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from rocketpy.client.data_links import DataConnection
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.statistics import ConnectionStatistics

__all__ = ["ClientStatistics", "PeerStatistics", "in_flight", "statistics"]


@attrs.frozen(kw_only=True)
class PeerStatistics:
    """The connections to one broker or name server. Bytes are those of the connections that are open now."""

    connections: int
    """Two for a broker that threads or asyncio send to, one of them for their messages."""
    in_flight: int
    """Requests that wait for an answer, pulls that the broker holds among them."""
    sent_bytes: int
    received_bytes: int


@attrs.frozen(kw_only=True)
class ClientStatistics:
    """What a client has open and under way, and what it has done since it was made."""

    connections: int
    """Open ones, to brokers and name servers."""
    dialling: int
    """Addresses that are being dialled."""
    dials: int
    failed_dials: int
    addresses_failing: int
    """Addresses whose last dial failed, or whose last connection ended without a byte from the peer."""
    in_flight: int
    """Requests that wait for an answer, pulls that brokers hold among them."""
    topics: int
    """Topics whose routes are known."""
    brokers: int
    """Brokers that these routes name."""
    heartbeats: int
    """Heartbeats sent."""
    failed_heartbeats: int
    """Those of them that were not answered, or refused."""
    brokers_answering: int
    """Brokers that answered the last heartbeat."""
    replies_awaited: int
    """Requests to consumers (`request`) whose replies have not come yet."""
    peers: Mapping[str, PeerStatistics]
    """The peers that there are connections to, by address."""


def statistics(client: MQClientInstance) -> ClientStatistics:
    """Make the statistics. For any thread."""
    pool = client.pool.statistics()
    peers = _peers(client.pool.connections(), client.data_links.all())
    return ClientStatistics(
        connections=sum(peer.connections for peer in peers.values()),
        dialling=pool.dialling,
        dials=pool.dials,
        failed_dials=pool.failures,
        addresses_failing=pool.addresses_failing,
        in_flight=sum(peer.in_flight for peer in peers.values()),
        topics=len(client.routes.topics()),
        brokers=len(client.routes.brokers()),
        heartbeats=client.heartbeats.sent,
        failed_heartbeats=client.heartbeats.failed,
        brokers_answering=len(client.heartbeats.answering),
        replies_awaited=len(client.requests),
        peers=peers,
    )


def _peers(loop: list[Connection], data: list[DataConnection]) -> dict[str, PeerStatistics]:
    beside: dict[str, list[DataConnection]] = {}
    for link in data:
        if link.error is None:
            beside.setdefault(link.address, []).append(link)
    own = {connection.address: connection.statistics() for connection in loop}
    return {address: _peer(own.get(address), beside.get(address, ())) for address in sorted({*own, *beside})}


def _peer(own: ConnectionStatistics | None, links: Collection[DataConnection]) -> PeerStatistics:
    return PeerStatistics(
        connections=(own is not None) + len(links),
        in_flight=(own.in_flight if own else 0) + sum(map(len, links)),
        sent_bytes=(own.sent_bytes if own else 0) + sum(link.sent_bytes for link in links),
        received_bytes=(own.received_bytes if own else 0) + sum(link.received_bytes for link in links),
    )


def in_flight(client: MQClientInstance, broker_name: str) -> int:
    """Requests to the master of a broker that wait for an answer. For any thread."""
    address = client.routes.broker_address(broker_name)
    own = [link for link in client.pool.connections() if link.address == address]
    beside = [link for link in client.data_links.all() if link.address == address and link.error is None]
    return sum(link.statistics().in_flight for link in own) + sum(map(len, beside))
