"""Settings of the port that shows metrics, broker and name server alike. Plays a part of BrokerConfig."""

from __future__ import annotations

import enum

import attrs

from rocketpy_broker_sim.config.kinds import number, text
from rocketpy_broker_sim.config.settings import Settings

__all__ = ["METRICS_PORT", "MetricsConfig", "MetricsExporterType"]

METRICS_PORT = 5557


class MetricsExporterType(enum.IntEnum):
    """How metrics are exported. The members are Java's, and so are their numbers."""

    DISABLE = 0
    OTLP_GRPC = 1
    """Not done here; there are no metrics with it."""
    PROM = 2
    """Prometheus fetches them from a port."""
    LOG = 3
    """Not done here; there are no metrics with it."""


@attrs.define(kw_only=True, eq=False, repr=False)
class MetricsConfig(Settings):
    """The settings of the port with `/metrics` and `/healthz`."""

    metrics_exporter_type: MetricsExporterType = attrs.field(
        default=MetricsExporterType.DISABLE, validator=attrs.validators.instance_of(MetricsExporterType)
    )
    """PROM opens a port for Prometheus, which needs the extra `prometheus`. The other types export nothing here."""
    metrics_prom_exporter_host: str = text("")
    """Address of that port; "" stands for this machine only, where Java listens on every interface."""
    metrics_prom_exporter_port: int = number(METRICS_PORT, at_most=65_535)
    """The port; 0 picks any free port."""
