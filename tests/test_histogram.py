"""Latencies: percentiles are near the truth, and what is old is forgotten."""

from __future__ import annotations

import random

import pytest

from rocketpy.histogram import Histogram, Latency, latency_of


@pytest.mark.parametrize("scale", [1e-5, 1e-3, 0.2, 30.0])
def test_percentiles_are_at_most_nine_percent_too_high(scale):
    chance = random.Random(7)
    values = [scale * chance.lognormvariate(0, 1) for _ in range(5000)]
    histogram = Histogram()
    histogram.add(1.0, values)
    found, ordered = histogram.latency(1.0), sorted(values)
    for share, got in ((0.5, found.p50), (0.9, found.p90), (0.99, found.p99)):
        true = ordered[round(share * len(ordered)) - 1]
        assert true <= got <= max(1.0906 * true, 1e-5)
    assert found.maximum == ordered[-1]
    assert found.mean == pytest.approx(sum(values) / len(values))
    assert found.count == 5000


def test_what_is_older_than_a_minute_goes_by_itself_and_memory_stays():
    histogram = Histogram()
    for second in range(600):
        histogram.add(float(second), [0.001 * (second + 1)])
    found = histogram.latency(599.0)
    assert 60 <= found.count <= 70
    assert found.maximum == 0.6
    assert len(histogram._slices) <= 7
    assert histogram.latency(10_000.0) == Latency()


def test_equal_durations_and_histograms_add_up():
    one, other = Histogram(), Histogram()
    one.add_equal(5.0, 0.01, 99)
    other.add(5.0, [2.0])
    found = latency_of((one, other), 5.0)
    assert (found.count, found.maximum) == (100, 2.0)
    assert found.p99 <= 0.0109
    assert found.mean == pytest.approx((0.99 + 2) / 100)


def test_the_longest_durations_have_a_bucket_too():
    histogram = Histogram()
    histogram.add(0.0, [5000.0, 1e-9, 0.0])
    found = histogram.latency(0.0)
    assert found.maximum == found.p99 == 5000.0
    assert found.p50 <= 1e-5
