"""The settings of what tells its statistics at an interval. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from rocketpy.config.checks import function_or_none, seconds
from rocketpy.config.client import ClientConfig

__all__ = ["ObservedConfig"]


@attrs.frozen(kw_only=True)
class ObservedConfig(ClientConfig):
    """How often statistics are told, and whom."""

    on_statistics: Callable[..., Any] | None = attrs.field(
        default=None, validator=function_or_none("what `statistics` returns"), metadata={"java": None}
    )
    """Called with what `statistics()` returns, at every `statistics_interval` while this is open, one call at a time. A
    plain function is called in a thread, an async one in your loop. An exception is only logged. Closing waits for a
    call that is under way, for `close_timeout` at the most, and none begins afterwards."""
    statistics_interval: float = attrs.field(default=60.0, validator=seconds(0.01, 86_400), metadata={"java": None})
    """Seconds between two calls of `on_statistics`."""
