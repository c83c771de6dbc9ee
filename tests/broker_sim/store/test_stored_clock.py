"""The clock of stored times: it never goes back, and knows how long ago a record was stored."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.seams import wall_clock
from rocketpy_broker_sim.store.clock import MOST_MARKS, WHOLE_MS, StoredClock

NOW = 1_790_000_000_000


class Times:
    """Both clocks, set by hand."""

    def __init__(self) -> None:
        self.wall, self.even = NOW, 0.0
        self.stored = StoredClock(lambda: self.even)

    def go(self, seconds: float, *, step: int = 0) -> int:
        """Let time pass, the wall clock make a step, and ask for a stored time."""
        self.even += seconds
        self.wall += round(seconds * 1000) + step
        return self.stored.now_ms() - NOW


@pytest.fixture
def times() -> Iterator[Times]:
    made = Times()
    with wall_clock(lambda: made.wall):
        yield made


def test_it_follows_the_wall_clock_forward(times: Times) -> None:
    assert [times.go(0), times.go(1), times.go(1, step=3_600_000), times.go(1)] == [0, 1_000, 3_602_000, 3_603_000]


def test_it_stands_until_the_wall_clock_comes_level(times: Times) -> None:
    assert [times.go(0), times.go(0, step=-300), times.go(0.2), times.go(0.2), times.go(1)] == [0, 0, 0, 100, 1_100]


def test_it_stands_for_a_second_and_goes_on(times: Times) -> None:
    times.go(0)
    assert times.go(0, step=-3_600_000) == 0
    assert [times.go(0.5) for _ in range(5)] == [0, 0, 500, 1_000, 1_500]


def test_it_comes_back_to_a_wall_clock_that_is_put_right(times: Times) -> None:
    times.go(0)
    times.go(0, step=-3_600_000)
    assert times.go(3) == 2_000
    assert times.go(1, step=3_600_000) == 4_000
    assert times.go(0, step=-500) == 4_000  # and stands again


def test_it_goes_on_after_the_records_of_an_earlier_run(times: Times) -> None:
    times.stored.newest = NOW + 10_000
    assert [times.go(0), times.go(1), times.go(1)] == [10_000, 10_000, 11_000]


def test_without_a_monotonic_clock_it_stands(times: Times) -> None:
    clock = StoredClock()
    clock.newest = NOW + 5_000
    times.go(3)
    assert clock.now_ms() == NOW + 5_000
    clock.mark(0, NOW)
    assert clock.waited_ms(0, NOW) is None
    assert clock.even_ms() == times.wall


def test_a_record_that_was_taken_back_leaves_no_mark(times: Times) -> None:
    times.go(0)
    times.stored.mark(100, times.stored.now_ms())
    times.go(5, step=3_600_000)
    times.stored.mark(100, times.stored.now_ms())
    times.go(1)
    assert times.stored.waited_ms(100, NOW + 3_605_000) == pytest.approx(1_000 - WHOLE_MS)


def test_marks_are_bounded_and_what_is_older_is_not_known(times: Times) -> None:
    stored = []
    for position in range(MOST_MARKS + 10):
        times.go(0.001, step=1_000)
        stored.append(times.stored.now_ms())
        times.stored.mark(position, stored[-1])
    assert times.stored.waited_ms(9, stored[9]) is None
    assert times.stored.waited_ms(10, stored[10]) == pytest.approx(MOST_MARKS - 1 - WHOLE_MS, abs=0.01)


@given(
    st.lists(
        st.tuples(
            st.floats(0, 100, allow_subnormal=False),
            st.sampled_from([0, 0, 0, -1, 1, 400, -400, -1_500, 3_600_000, -3_600_000, 86_400_000]),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_every_record_has_waited_as_long_as_the_monotonic_clock_says(moves: list[tuple[float, int]]) -> None:
    times = Times()
    with wall_clock(lambda: times.wall):
        records = []
        for position, (seconds, step) in enumerate(moves):
            times.go(seconds, step=step)
            stored = times.stored.now_ms()
            assert not records or stored >= records[-1][1]
            times.stored.mark(position, stored)
            records.append((position, stored, times.even))
        for position, stored, even in records:
            # Stored times are whole milliseconds, and marks allow for five.
            assert times.stored.waited_ms(position, stored) == pytest.approx((times.even - even) * 1000, abs=6.5)
