"""The answer to `/metrics`: the text format of Prometheus, written a few samples at a time.

A broker may have a hundred thousand topics, so neither the samples nor the text are ever in memory as a whole: parts of
the text are sent while the next ones are made. Every label is escaped as in a log line, and cut.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from prometheus_client import Metric as PrometheusMetric
from prometheus_client import generate_latest

from rocketpy.errors import RocketMQError
from rocketpy.logs import get_logger, quote
from rocketpy_broker_sim.metrics.metric import Family, Kind, Metric, Sample

__all__ = ["CONTENT_TYPE", "INCOMPLETE", "Steps", "page_steps"]

log = get_logger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
INCOMPLETE = Metric(
    "rocketmq_metrics_incomplete",
    "1 for each metric that lacks samples: there are more than metricsOtelCardinalityLimit (limit), or "
    "reading them failed (error)",
    ("metric", "reason"),
)
_SAMPLES_A_STEP = 32
_TOTAL = "_total"

Steps = Generator[bytes, None, None]
"""Parts of a text; b"" is a step after which there is no text yet."""


class _Collector:
    """One family, as `generate_latest` asks for it."""

    def __init__(self, metric: PrometheusMetric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[PrometheusMetric]:
        return (self._metric,)


class _Writer:
    """Writes the samples of one metric.

    Args:
        metric: the metric.
        common: the labels that all samples have.
    """

    def __init__(self, metric: Metric, common: Mapping[str, str]) -> None:
        self._metric = metric
        self._common = {name: quote(value) for name, value in common.items()}
        self._name = metric.name.removesuffix(_TOTAL) if metric.kind is Kind.COUNTER else metric.name
        self.head = self._text(())

    def write(self, samples: Sequence[Sample]) -> bytes:
        """The lines of some samples, without the head."""
        return self._text(samples).removeprefix(self.head)

    def _text(self, samples: Iterable[Sample]) -> bytes:
        made = PrometheusMetric(self._name, self._metric.help, self._metric.kind)
        for labels, value in samples:
            own = zip(self._metric.labels, map(quote, labels), strict=True)
            made.add_sample(self._metric.name, {**self._common, **dict(own)}, value)
        return generate_latest(_Collector(made))


def page_steps(families: Iterable[Family], common: Mapping[str, str], most: int) -> Steps:
    """Write families, in steps.

    Args:
        families: what to write; asked for one after the other.
        common: the labels that all samples have.
        most: the largest number of samples that a metric may have.
    """
    incomplete: list[Sample] = []
    for family in families:
        yield from _family_steps(family, common, most, lambda *labels: incomplete.append((labels, 1)))
    if incomplete:
        yield from _family_steps(INCOMPLETE.of(incomplete), common, most, lambda *_: None)


def _family_steps(family: Family, common: Mapping[str, str], most: int, note: Callable[[str, str], object]) -> Steps:
    name = family.metric.name
    writer = _Writer(family.metric, common)
    yield writer.head
    count, samples = 0, iter(family.samples)
    try:
        while True:
            looked = list(islice(samples, _SAMPLES_A_STEP))
            if not looked:
                return
            found = [each for each in looked if each is not None][: most - count]
            count += len(found)
            yield writer.write(found) if found else b""
            if count >= most and _has_more(samples):
                note(name, "limit")
                return
    except (RocketMQError, OSError) as exc:  # the disk
        log.warning("the metric %s is incomplete: %s", name, exc)
        note(name, "error")


def _has_more(samples: Iterator[Sample | None]) -> bool:
    """Whether another sample follows; whether there might be one, if there is work before it."""
    return next(samples, samples) is not samples
