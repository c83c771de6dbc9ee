"""What a producer holds against brokers, as users see it. Plain values."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

__all__ = ["BrokerFault", "FaultStatistics"]


@attrs.frozen(kw_only=True)
class BrokerFault:
    """Why sends pass over a broker, and for how long."""

    broker_name: str
    latency: float
    """Seconds that the send took which was too slow, or failed."""
    available_in: float
    """Seconds until it is tried again; 0 when it has rested enough, and waits for the one send that finds out."""
    reachable: bool
    """False when it could not even be reached."""
    probing: bool
    """Whether that one send is under way."""


@attrs.frozen(kw_only=True)
class FaultStatistics:
    """Which brokers a producer passes over because they were slow or failed."""

    enabled: bool
    """Whether it does, as `send_latency_enable` says."""
    brokers: Mapping[str, BrokerFault]
    """By name; empty when all are well."""
    isolations: int
    """How often a broker began to be passed over, since the producer was made; a probe that fails counts again."""
    probes: int
    """How often a single send found out whether a broker was well again."""
    detected: int
    """How often the detector ended a rest early because it reached the broker."""
