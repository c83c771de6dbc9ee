"""The metrics of a broker as a whole, and the list of all metrics of a broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rocketpy._version import __version__
from rocketpy_broker_sim.broker.metrics.groups import GROUP_METRICS
from rocketpy_broker_sim.broker.metrics.parts import PART_METRICS
from rocketpy_broker_sim.broker.metrics.runtime import RUNTIME_METRICS
from rocketpy_broker_sim.broker.metrics.topics import TOPIC_METRICS
from rocketpy_broker_sim.metrics.metric import Family, Metric

__all__ = ["BROKER_METRICS", "whole_families"]

_BUILD = Metric(
    "rocketmq_build_info",
    "1; the labels are the version of rocketpy, and that of RocketMQ which it plays",
    ("version", "rocketmq"),
)
_START = Metric("rocketmq_start_time_seconds", "When the broker was started, in seconds since 1970")
_HEALTHY = Metric("rocketmq_healthy", "1 if /healthz says ok, else 0")

BROKER_METRICS = (_BUILD, _START, _HEALTHY, *RUNTIME_METRICS, *TOPIC_METRICS, *GROUP_METRICS, *PART_METRICS)
"""All metrics of a broker, besides the one that says which of them are incomplete."""


def whole_families(info: Mapping[str, str], has_problems: bool) -> Iterator[Family]:
    """Make the families.

    Args:
        info: the answer to GET_BROKER_RUNTIME_INFO.
        has_problems: whether there is a reason not to be healthy.
    """
    yield _BUILD.of([((__version__, info["brokerVersionDesc"]), 1)])
    yield _START.value(int(info["bootTimestamp"]) / 1000)
    yield _HEALTHY.value(0 if has_problems else 1)
