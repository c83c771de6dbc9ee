"""Metric and Family: what is measured, and the samples of one scrape. Plain values, which need no other package.

The parts of a server return families whose samples are made when they are asked for, a few at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

__all__ = ["Family", "Kind", "Metric", "Sample"]

Sample = tuple[tuple[str, ...], float]
"""The values of the labels, and the value. In place of a sample, None says that there is work between two samples."""


class Kind(StrEnum):
    """The kind of a metric, as Prometheus calls it."""

    GAUGE = "gauge"
    COUNTER = "counter"
    """Its name ends in `_total`."""


class Metric(NamedTuple):
    """What is measured.

    Attributes:
        name: Its name in answers.
        help: What it means.
        labels: The names of its labels, besides those that all metrics of the server have.
        kind: Its kind.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()
    kind: Kind = Kind.GAUGE

    def of(self, samples: Iterable[Sample | None]) -> Family:
        """The metric with samples."""
        return Family(self, samples)

    def value(self, value: float) -> Family:
        """The metric with one sample that has no labels."""
        return Family(self, (((), value),))


class Family(NamedTuple):
    """A metric with its samples.

    Attributes:
        metric: The metric.
        samples: The samples of one scrape, which are made while they are asked for.
    """

    metric: Metric
    samples: Iterable[Sample | None]
