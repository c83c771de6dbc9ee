"""The page of metrics shows every metric that servers and programs can show."""

from __future__ import annotations

import pytest

from rocketpy.prometheus import ClientCollector
from rocketpy_broker_sim.broker.metrics.whole import BROKER_METRICS
from rocketpy_broker_sim.metrics.page import INCOMPLETE
from rocketpy_broker_sim.namesrv.metrics import NAMESRV_METRICS
from tests.pages import DOCS, extension


@pytest.fixture(scope="module")
def page() -> str:
    source = [(DOCS / "howto/metrics.md").read_text("utf-8")]
    extension("metrics_tables").fill_page(None, "howto/metrics", source)
    return source[0]


def test_every_metric_has_one_row_that_says_what_it_means(page: str) -> None:
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `rocketmq_")]
    names = [row[0].strip("| `") for row in rows]
    shown = [metric.name for metric in (*BROKER_METRICS, *NAMESRV_METRICS, *ClientCollector.shown())]
    assert sorted(names) == sorted([*shown, INCOMPLETE.name, INCOMPLETE.name])
    assert [row for row in rows if len(row[-1].strip(" |")) < 5] == []
    assert "<!-- metrics" not in page


def test_a_marker_that_asks_for_no_table_is_an_error() -> None:
    with pytest.raises(KeyError):
        extension("metrics_tables").fill_page(None, "howto/metrics", ["<!-- metrics: nothing -->"])
