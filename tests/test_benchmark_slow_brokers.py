"""The benchmark of slow brokers runs, tiny, and shows what the fault strategy is for."""

from __future__ import annotations

import pytest

from benchmarks import __main__ as command
from benchmarks import slow_brokers
from benchmarks.slow_brokers import Sample, table


@pytest.mark.slow
@pytest.mark.waits("brokers are slow")
def test_the_strategy_keeps_more_of_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_brokers, "SLOW", 0.7)
    monkeypatch.setattr(slow_brokers, "WARMING", 1.0)
    without, with_it = (slow_brokers.measure(name, 0.5) for name in ("off", "on, 4.x table"))
    assert without.failed == with_it.failed == 0
    assert without.share < 0.5 * with_it.share
    assert with_it.probes == 0


def test_the_table_shows_the_ways_side_by_side() -> None:
    samples = [Sample("off", 10_000, 50, 0, 3), Sample("on", 10_000, 9_100, 4, 0), Sample("too slow", 100, 80, 0, 0)]
    _, head, off, kept, lost = table(samples, 20).splitlines()
    assert head.split() == ["fault", "strategy", "all", "well", "slow", "share", "probes", "failed", "bar"]
    assert off.split() == ["off", "10,000/s", "50/s", "0.005", "0", "3"]
    assert kept.split() == ["on", "10,000/s", "9,100/s", "0.910", "4", "0", *["at", "least", "0.9:", "reached"]]
    assert lost.endswith("at least 0.9: not reached")


@pytest.mark.parametrize(("words", "seconds"), [([], "120.0"), (["--seconds", "7"], "7.0")])
def test_it_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch, words: list[str], seconds: str) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr("sys.argv", ["bench", "slow-brokers", *words])
    monkeypatch.setattr(slow_brokers, "main", lambda given: asked.append(given) or 0)
    assert command.main() == 0
    assert asked == [["--seconds", seconds]]
    assert command.arguments(["trio-64"]).seconds == 0.6
