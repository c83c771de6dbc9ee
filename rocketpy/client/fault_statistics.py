"""The brokers that a producer avoids, as users see them. Plain values."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rocketpy.reprs import Short

__all__ = ["BrokerFault", "FaultStatistics"]


@attrs.frozen(kw_only=True, repr=False)
class BrokerFault(Short):
    """Why a producer avoids a broker, and for how long."""

    broker_name: str
    latency: float
    """Seconds that the last send took that was too slow or failed."""
    available_in: float
    """Seconds until the broker is available again; 0 if it waits for its probe."""
    reachable: bool
    """False if the last send could not reach the broker, and the detector has not reached it since."""
    probing: bool
    """Whether the probe, a single send after the broker was unavailable, is in flight."""


@attrs.frozen(kw_only=True, repr=False)
class FaultStatistics(Short):
    """Which brokers a producer avoids because they were slow or failed. Counters start when the producer is created."""

    enabled: bool
    """Whether the producer avoids brokers; `send_latency_enable`."""
    brokers: Mapping[str, BrokerFault]
    """The brokers that are avoided, or wait for their probe, by name."""
    isolations: int
    """How often a broker became unavailable; a probe that fails counts again."""
    probes: int
    """How many probes were sent."""
    detected: int
    """How often the detector reached a broker, and made it available early."""
