"""Figure: a number in statistics, and the metric that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from rocketpy.histogram import Latency

__all__ = ["Figure", "count", "gauge", "latency"]

_QUANTILES: dict[str, Callable[[Latency], float]] = {
    "0.5": lambda latency: latency.p50,
    "0.9": lambda latency: latency.p90,
    "0.99": lambda latency: latency.p99,
    "1": lambda latency: latency.maximum,
}


class Figure(NamedTuple):
    """A number in a record, or the quantiles of a latency there.

    Attributes:
        name: The name of the metric; that of a counter ends in `_total`.
        help: What it means.
        kind: Its kind.
        read: Reads it from the record.
        is_latency: Whether it is a latency, of which the quantiles are shown.
    """

    name: str
    help: str
    kind: Literal["counter", "gauge"]
    read: Callable[[Any], Any]
    is_latency: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of its own."""
        return ("quantile",) if self.is_latency else ()

    def samples(self, record: object) -> Iterator[tuple[tuple[str, ...], float]]:
        """The values of its own labels, and the value."""
        value = self.read(record)
        if self.is_latency:
            for name, read in _QUANTILES.items():
                yield (name,), read(value)
        else:
            yield (), value


def count(name: str, help: str, field: str) -> Figure:  # noqa: A002 - what prometheus-client calls it
    """A field that only rises."""
    return Figure(f"rocketmq_client_{name}_total", help, "counter", _reader(field))


def gauge(name: str, help: str, field: str, scale: float = 1) -> Figure:  # noqa: A002
    """A field that rises and falls."""
    read = _reader(field)
    return Figure(f"rocketmq_client_{name}", help, "gauge", read if scale == 1 else lambda record: read(record) * scale)


def latency(name: str, help: str, field: str) -> Figure:  # noqa: A002
    """A field with latencies of the last minute."""
    return Figure(f"rocketmq_client_{name}_seconds", f"{help}, in the last minute", "gauge", _reader(field), True)


def _reader(field: str) -> Callable[[Any], Any]:
    return lambda record: getattr(record, field)
