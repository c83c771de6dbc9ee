"""Rates: what is counted fades after a minute, or an hour, and costs a few numbers however much it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.rates import Rate


def test_nothing_counted_is_nothing() -> None:
    rate = Rate(5.0)
    assert rate.minute(5.0).per_second == rate.minute(500.0).mean == rate.hour(9e9).value == 0


def test_a_steady_rate_is_found_after_a_while_and_fades() -> None:
    rate = Rate(0.0)
    for second in range(600):
        rate.add(float(second), 3.0)
    assert rate.minute(600.0).per_second == pytest.approx(3.0, rel=0.02)
    assert rate.minute(600.0).mean == 3.0
    assert rate.hour(600.0).value == 1800
    assert rate.minute(680.0).value == 0
    assert rate.hour(680.0).value == 1800
    assert rate.hour(600.0 + 4300).value == 0


def test_the_first_moments_are_not_blown_up() -> None:
    rate = Rate(1000.003)
    rate.add(1000.004, 5, 2)
    assert rate.minute(1000.005).per_second == 0.5
    assert rate.minute(1000.005).mean == 2.5


@given(st.lists(st.tuples(st.floats(0, 30), st.integers(0, 1000)), max_size=100), st.floats(0, 100))
def test_every_window_holds_what_is_younger_and_nothing_that_is_much_older(
    counts: list[tuple[float, int]], wait: float
) -> None:
    rate, now, told = Rate(0.0), 0.0, list[tuple[float, int]]()
    for step, value in counts:
        now += step
        rate.add(now, value)
        told.append((now, value))
    now += wait
    minute = rate.minute(now)
    assert sum(value for at, value in told if at > now - 60) <= minute.value
    assert minute.value <= sum(value for at, value in told if at >= now - 70)
    assert len(rate._minute._buckets) <= 7
