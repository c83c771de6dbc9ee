"""An attempt of a task that is still sending when Spark starts the next one: its rows are not sent twice."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rocketpy.errors import RocketMQError
from rocketpy.spark.delivery import stored_rows
from rocketpy.spark.provenance import Provenance
from rocketpy.sync import Message, Producer
from tests.sink.spark_stand_in import Context, Died, part


class Zombie:
    """Makes a stage run again while its first attempt, whose task waits in the middle, is not ended.

    Args:
        frame: a frame with one partition.
        at: the row before which the first attempt waits.
    """

    def __init__(self, frame, at):
        self._frame, self._at = frame, at
        self._waits, self._goes_on = threading.Event(), threading.Event()
        frame.foreachPartition = self._foreach_partition

    def _foreach_partition(self, function):
        pickled, rows = pickle.dumps(function), self._frame._parts[0]
        self._frame._spark.enter(Context(0, 0))
        with ThreadPoolExecutor(1) as threads:
            self._first = threads.submit(lambda: pickle.loads(pickled)(self._waiting(rows)))
            self._first.add_done_callback(lambda _: self._waits.set())
            self._waits.wait()
            self._frame._spark.enter(Context(0, 0))  # the number of attempts begins again with the stage
            try:
                pickle.loads(pickled)(iter(rows))
            finally:
                self.go_on()
                self._frame._spark.enter(None)

    def _waiting(self, rows):
        for number, row in enumerate(rows):
            if number == self._at:
                self._waits.set()
                self._goes_on.wait()
            yield row

    def go_on(self):
        """Let the first attempt send the rest."""
        self._goes_on.set()
        self._first.result()


@pytest.fixture
def looks(monkeypatch):
    """Calls a function after each look for the messages that are stored. Gives the number of looks."""
    count = []

    def after_each(function):
        real = stored_rows.read

        def look(*arguments):
            real(*arguments)
            count.append(None)
            function(len(count))

        monkeypatch.setattr(stored_rows, "read", look)

    after_each.count = lambda: len(count)
    return after_each


@pytest.mark.waits("two attempts of a task in two threads")
def test_a_stage_that_is_run_again_while_its_first_attempt_goes_on_sending(spark, to, times, looks):
    frame = spark.frame(part(0))
    zombie = Zombie(frame, at=30)
    looks(lambda number: zombie.go_on() if number == 1 else None)
    to()(frame, 0)
    assert times() == {row[0]: 1 for row in part(0)}
    assert looks.count() == 3, "the last one found nothing"


@pytest.fixture
def chatter(namesrv, topic, looks):
    """Stores one more message of a partition of a micro-batch after each look, for the sinks of `to`."""
    with Producer("chatter", namesrv=namesrv) as producer:

        def of(partition):
            marks = Provenance(query="query-1", batch=0, partition=partition)

            def say(number):
                key = f"{partition}-{number}"
                producer.send(marks.mark(Message(topic, key), 1000 + number, key))

            looks(say)

        yield of


def test_an_attempt_that_does_not_end_fails_the_next_one(monkeypatch, spark, to, chatter):
    with pytest.raises(Died):
        to()(spark.frame(part(0), dies=(0, 40), attempts=1), 0)
    chatter(0)
    monkeypatch.setattr(stored_rows, "_QUIET_WITHIN", 0.0)
    with pytest.raises(RocketMQError, match="an earlier attempt of partition 0 goes on sending to the topic"):
        to()(spark.frame(part(0), run="run-2"), 0)


def test_other_partitions_that_go_on_sending_are_not_waited_for(monkeypatch, spark, to, times, chatter, looks):
    """Their messages are looked for if rows have keys, but their tasks are running as they should."""
    with pytest.raises(Died):
        to(dedupe_key=1)(spark.frame(part(0), dies=(0, 40), attempts=1), 0)
    chatter(1)
    to(dedupe_key=1)(spark.frame(part(0), run="run-2"), 0)
    assert looks.count() == 2
    assert {row[0]: times()[row[0]] for row in part(0)} == {row[0]: 1 for row in part(0)}
