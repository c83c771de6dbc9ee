"""The settings of producers and consumers that report their statistics at an interval. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from rocketpy.config.checks import function_or_none, seconds
from rocketpy.config.client import ClientConfig
from rocketpy.durations import duration

__all__ = ["ObservedConfig"]


@attrs.frozen(kw_only=True, repr=False)
class ObservedConfig(ClientConfig):
    """How often statistics are reported, and to which function."""

    on_statistics: Callable[..., Any] | None = attrs.field(
        default=None, validator=function_or_none("what `statistics` returns"), metadata={"java": None}
    )
    """Called with the result of `statistics()` at every `statistics_interval` while the producer or consumer is open,
    one call at a time. A plain function is called in a thread, an async function in your loop. An exception is logged,
    and changes nothing else. Closing waits up to `close_timeout` seconds for a running call, and starts no other."""
    statistics_interval: float = attrs.field(
        default=60.0, converter=duration, validator=seconds(0.01, 86_400), metadata={"java": None}
    )
    """Seconds between two calls of `on_statistics`."""
