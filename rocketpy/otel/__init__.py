"""OpenTelemetry: spans and metrics of sends and of consumption, for producers and consumers of every surface.

Nothing else of rocketpy imports this package, which needs the extra `otel` (opentelemetry-api). It plays the part of
the hooks in Java's rocketmq-client module for tracing.
"""

from __future__ import annotations

try:
    import opentelemetry.metrics
    import opentelemetry.propagate
    import opentelemetry.trace  # noqa: F401
except ImportError as exc:
    raise ImportError(
        "rocketpy.otel needs the package opentelemetry-api: install rocketpy with its extra, rocketpy[otel]"
    ) from exc

from rocketpy.otel.telemetry import OpenTelemetry, instrument

__all__ = ["OpenTelemetry", "instrument"]
