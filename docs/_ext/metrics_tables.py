"""Writes the tables of metrics from their declarations, whenever the page is built, so that it cannot lag behind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from rocketpy.prometheus.collector import ClientCollector
from rocketpy_broker_sim.broker.metrics.groups import GROUP_METRICS
from rocketpy_broker_sim.broker.metrics.parts import PART_METRICS
from rocketpy_broker_sim.broker.metrics.runtime import RUNTIME_METRICS
from rocketpy_broker_sim.broker.metrics.topics import TOPIC_METRICS
from rocketpy_broker_sim.broker.metrics.whole import BROKER_METRICS
from rocketpy_broker_sim.metrics.metric import Metric  # noqa: TC001
from rocketpy_broker_sim.metrics.page import INCOMPLETE
from rocketpy_broker_sim.namesrv.metrics import NAMESRV_METRICS

PAGE = "howto/metrics"
MARKER = re.compile(r"<!-- metrics: (.+?) -->")
_SHOWN = (*RUNTIME_METRICS, *TOPIC_METRICS, *GROUP_METRICS, *PART_METRICS)
SERVERS: dict[str, Sequence[Metric]] = {
    "broker": (*(each for each in BROKER_METRICS if each not in _SHOWN), INCOMPLETE),
    "topics": TOPIC_METRICS,
    "groups": GROUP_METRICS,
    "parts": PART_METRICS,
    "runtime": RUNTIME_METRICS,
    "name server": (*NAMESRV_METRICS, INCOMPLETE),
}


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", fill_page)
    return {"parallel_read_safe": True}


def fill_page(_app: Any, name: str, source: list[str]) -> None:
    if name == PAGE:
        source[0] = MARKER.sub(lambda found: content(found[1]), source[0])


def content(wanted: str) -> str:
    """The table that a marker asks for; a marker that asks for none is an error of the page."""
    if wanted == "client":
        return table((each.name, each.labels, each.help) for each in ClientCollector.shown())
    labels = SERVERS[wanted][0].labels if wanted == "runtime" else None
    return table((each.name, () if each.labels == labels else each.labels, each.help) for each in SERVERS[wanted])


def table(rows: Iterable[tuple[str, Sequence[str], str]]) -> str:
    lines = ["| metric | labels | meaning |", "|---|---|---|"]
    for name, labels, meaning in rows:
        lines.append(f"| `{name}` | {', '.join(f'`{each}`' for each in labels)} | {meaning} |")
    return "\n".join(lines)
