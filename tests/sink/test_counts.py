"""Sums on the driver, with stand-ins for Spark's accumulators."""

from __future__ import annotations

import pickle
import threading

import pytest

from rocketpy.errors import ConfigError
from rocketpy.spark import counts
from rocketpy.spark.counts import Counts, Tally

_registered: dict[int, Accumulator] = {}


class Accumulator:
    """Travels without its value, as Spark's do."""

    def __init__(self, number, deserialized=False):
        self.number = number
        self.value = 0
        self._deserialized = deserialized

    def add(self, term):
        # What an executor adds reaches the driver when its task has succeeded: here at once.
        _registered[self.number].value += term

    def __reduce__(self):
        return Accumulator, (self.number, True)


class Context:
    """A SparkContext that knows how to make them."""

    def accumulator(self, zero):
        assert zero == 0
        made = Accumulator(len(_registered))
        _registered[made.number] = made
        return made


@pytest.fixture
def spark(monkeypatch):
    """Calling it starts Spark."""
    _registered.clear()
    monkeypatch.setattr(counts, "active_context", lambda: None)
    return lambda: monkeypatch.setattr(counts, "active_context", lambda: Context())


def on_executor(tally):
    return pickle.loads(pickle.dumps(tally))


@pytest.mark.parametrize("when", ["before", "after"])
def test_executors_add_and_the_driver_reads_whenever_the_sink_was_made(spark, when):
    if when == "before":
        tally = Tally()
        spark()
    else:
        spark()
        tally = Tally()
    for _ in range(3):
        on_executor(tally).add(Counts(sent=10, skipped=2, bytes=100))
    on_executor(tally).add(Counts(failed=1))
    assert tally.value == (30, 1, 6, 300)
    assert all(type(each) is int for each in tally.value)


def test_accumulators_are_made_once(spark):
    spark()
    tally = Tally()
    for _ in range(5):
        on_executor(tally)
    assert len(_registered) == 4


def test_jobs_that_begin_at_once_take_the_same_accumulators_along(spark, monkeypatch):
    tally = Tally()
    other = threading.Thread(target=on_executor, args=(tally,))
    came, lock = threading.Event(), threading.Lock()

    class Slow(Context):
        """Another job begins while the first one makes them, and comes as far as it can."""

        def accumulator(self, zero):
            if threading.current_thread() is other:
                came.set()
            elif not other.ident:
                other.start()
                assert came.wait(10)
            return super().accumulator(zero)

    class Lock:
        """Tells when the other job has come to it."""

        def __enter__(self):
            if threading.current_thread() is other:
                came.set()
            lock.acquire()

        def __exit__(self, *_):
            lock.release()

    monkeypatch.setattr(counts, "_lock", Lock())
    monkeypatch.setattr(counts, "active_context", lambda: Slow())
    on_executor(tally)
    other.join()
    assert len(_registered) == 4


def test_executors_do_not_read(spark):
    spark()
    with pytest.raises(ConfigError, match="read on the driver"):
        on_executor(Tally()).value  # noqa: B018 - asking is what fails


def test_what_was_counted_before_spark_started_stays(spark):
    tally = Tally()
    tally.add(Counts(1, 2, 3, 4))
    spark()
    on_executor(tally).add(Counts(10, 20, 30, 40))
    tally.add(Counts(100, 200, 300, 400))
    assert tally.value == (111, 222, 333, 444)


def test_without_spark_threads_add_to_one_sum(spark):
    tally = Tally()
    threads = [threading.Thread(target=lambda: [tally.add(Counts(1, 1, 1, 1)) for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tally.value == (2000, 2000, 2000, 2000)


def test_without_a_context_nobody_brings_counts_back_until_there_is_one(spark):
    tally = Tally()
    on_executor(tally).add(Counts(1))
    with pytest.raises(ConfigError, match="Spark Connect"):
        tally.value  # noqa: B018 - asking is what fails
    spark()
    on_executor(tally).add(Counts(2))
    assert tally.value == Counts(2)
