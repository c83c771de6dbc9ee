"""Prometheus: the statistics of producers, consumers and clients of every surface as metrics for prometheus-client.

Nothing else in rocketpy imports this package, which needs the extra `prometheus`. Java's clients have no counterpart:
RocketMQ's exporter for Prometheus asks them for some of these figures through the brokers.
"""

from __future__ import annotations

try:
    import prometheus_client  # noqa: F401
except ImportError as exc:
    raise ImportError(
        "rocketpy.prometheus needs the package prometheus-client: install rocketpy with its extra, rocketpy[prometheus]"
    ) from exc

from rocketpy.prometheus.collector import ClientCollector

__all__ = ["ClientCollector"]
