"""Bounds on connections: how much a peer may hold, and for how long.

What is bounded inside a frame stands in `rocketpy.wire.limits`. Plays the part of NettyServerConfig and
NettyClientConfig, as far as they bound anything.
"""

from __future__ import annotations

import attrs

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.limits import DEFAULT_LIMITS, WireLimits

__all__ = ["CLIENT_LIMITS", "ConnectionLimits", "ServerLimits", "too_slow"]

_KIB = 1024
_MIB = 1024 * 1024


@attrs.frozen(kw_only=True)
class ConnectionLimits:
    """Bounds on one connection. Times are in seconds, None switches a timer off."""

    wire: WireLimits = DEFAULT_LIMITS
    """Bounds inside a frame; the largest frame is also the bound on bytes kept unparsed."""
    frame_timeout: float | None = 30.0
    """Time to complete a frame that has begun."""
    idle_timeout: float | None = 120.0
    """Time without a byte in either direction and without a request in flight."""
    silence_timeout: float | None = None
    """Time in which a peer that let a request of ours run out must send a byte, or it is taken for dead."""
    max_parked: int = 1024
    """Requests of the peer without an answer yet; above, reading stops."""
    max_in_flight: int = 65535
    """Requests of ours without an answer yet; above, they are refused with TooManyRequestsError."""
    pending_writes: int = 64 * _KIB
    """Bytes that wait for the peer to read; above, no further request of that peer is served."""
    max_pending_writes: int = 8 * _MIB
    """Bytes that wait for the peer to read; a connection above this that is due another answer is closed."""
    frames_per_turn: int = 64
    """Frames that one connection may have served before others get their turn."""


CLIENT_LIMITS = ConnectionLimits(silence_timeout=10.0, pending_writes=_MIB, max_pending_writes=64 * _MIB)
"""What the pool of a client uses: a server is trusted a little more, and must be alive."""


@attrs.frozen(kw_only=True)
class ServerLimits:
    """Bounds on all connections of a server."""

    connection: ConnectionLimits = ConnectionLimits()
    max_connections: int = 10_000
    max_connections_per_host: int = 2_000
    max_kept: int = 256 * _MIB
    """Bytes that all connections may make the server keep; beyond that, the greediest is closed (see `budget`)."""


def too_slow(address: str, pending: int) -> RemoteProtocolError:
    """The error for a peer that does not read the answers to its requests."""
    return RemoteProtocolError(
        f"{address} sends requests and does not read the answers: {pending} bytes of them are waiting, so it is "
        "disconnected"
    )
