"""What OpenTelemetry cannot use is refused when it is given."""

from __future__ import annotations

import pytest
from opentelemetry.trace import NoOpTracerProvider

from rocketpy.errors import ConfigError
from rocketpy.otel import OpenTelemetry


@pytest.mark.parametrize("given", ["x", 5, NoOpTracerProvider])
@pytest.mark.parametrize("name", ["tracer_provider", "meter_provider", "propagator"])
def test_what_is_no_provider_is_refused_at_once(name: str, given: object) -> None:
    with pytest.raises(ConfigError, match=f"^{name} must be an object with the method .*, or None, not "):
        OpenTelemetry(**{name: given})  # type: ignore[arg-type]


def test_a_provider_is_taken() -> None:
    assert OpenTelemetry(tracer_provider=NoOpTracerProvider())
