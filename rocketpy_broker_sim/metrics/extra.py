"""Checks whether a server is to show metrics, and whether it can: before it starts, not in its first scrape."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from rocketpy.errors import ConfigError
from rocketpy_broker_sim.config.metrics import MetricsExporterType

if TYPE_CHECKING:
    from rocketpy_broker_sim.config import MetricsConfig

__all__ = ["need_extra", "wants_metrics"]

_PACKAGES = {"h11": "h11", "prometheus_client": "prometheus-client"}


def wants_metrics(config: MetricsConfig) -> bool:
    """Whether the settings ask for a port with metrics.

    Raises:
        ConfigError: they do, and a package is missing.
    """
    if config.metrics_exporter_type is not MetricsExporterType.PROM:
        return False
    need_extra()
    return True


def need_extra() -> None:
    """Check that metrics can be shown.

    Raises:
        ConfigError: a package is missing.
    """
    missing = [package for module, package in _PACKAGES.items() if find_spec(module) is None]
    if missing:
        raise ConfigError(
            f"a port with metrics needs {' and '.join(missing)}: install rocketpy with its extra, "
            "rocketpy[prometheus], or start without metrics"
        )
