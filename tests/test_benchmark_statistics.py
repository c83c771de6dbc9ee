"""The benchmark of what statistics cost runs, tiny, and compares what it says it compares."""

from __future__ import annotations

import pytest
import trio

from benchmarks import __main__ as command
from benchmarks import statistics_cost
from benchmarks.statistics_cost import TOPIC, WITH, WITHOUT, Way, opened, table


@pytest.mark.slow
@pytest.mark.waits("sends for a second")
def test_one_way_counts_and_is_scraped_and_the_other_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_cost, "EVERY", 0.2)

    async def main() -> dict[str, tuple[int, list[float], bool]]:
        found = {}
        for name in (WITH, WITHOUT):
            async with opened(name) as way:
                await way.take_turn(0.5)
                topics = way.producer.statistics().topics
                found[name] = topics[TOPIC].sent if TOPIC in topics else 0, way.rates, way.scraper is not None
        return found

    found = trio.run(main)
    assert found[WITH][0] > 0
    assert found[WITHOUT][0] == 0
    assert [found[name][2] for name in (WITH, WITHOUT)] == [True, False]
    assert all(rate > 0 for _, rates, _ in found.values() for rate in rates)


@pytest.mark.parametrize(("rate", "verdict"), [(98.0, "reached"), (90.0, "not reached")])
def test_the_table_judges_the_share_of_each_pair_of_turns(rate: float, verdict: str) -> None:
    producer = None
    counted = Way(producer, None, [rate, 2 * rate, rate], [1e-5] * 3)  # type: ignore[arg-type]
    uncounted = Way(producer, None, [100.0, 200.0, 10.0], [1e-5] * 3)  # type: ignore[arg-type]
    *_, last = table(counted, uncounted).splitlines()
    assert last == f"share of the rate {rate / 100:.3f}, at least 0.97: {verdict}"


def test_it_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr("sys.argv", ["bench", "statistics"])
    monkeypatch.setattr(statistics_cost, "main", lambda given: asked.append(given) or 0)
    assert command.main() == 0
    assert asked == [["--seconds", "40.0"]]
