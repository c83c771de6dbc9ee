"""Workers that are killed, and brokers that go away, in the middle of a partition: nothing is missing afterwards."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocketpy.spark import provenance_of, sink
from rocketpy_broker_sim import BlockingLocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 4000
PARTITIONS = 4
MIDDLE = ROWS // PARTITIONS // 2
# So few rows may be under way that most of the first half is acknowledged at the middle.
SMALL = {"batch_size": 50, "back_pressure_for_async_send_num": 100}
PATIENCE = 60.0


def at_the_middle(happens: Callable[[], None]) -> Callable[[int, Iterable[int]], Iterator[dict[str, str]]]:
    """Make rows of numbers; in the middle of the second partition something happens, in its first attempt alone."""

    def rows(partition: int, numbers: Iterable[int]) -> Iterator[dict[str, str]]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for position, number in enumerate(numbers):
            if partition == 1 and position == MIDDLE and context.attemptNumber() == 0:
                happens()
            yield {"value": f"row {number}", "keys": f"k{number}"}

    return rows


def kill_this_worker() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_task_killed_in_the_middle_is_run_again_and_nothing_is_missing(
    spark: SparkSession, servers: BlockingLocalCluster, topic: str
) -> None:
    written = sink(topic, namesrv=servers.name_server_addresses, value_format="string", **SMALL, provenance=True)
    numbers = spark.sparkContext.parallelize(range(ROWS), PARTITIONS)
    numbers.mapPartitionsWithIndex(at_the_middle(kill_this_worker)).foreachPartition(written)

    messages = servers.messages(topic)
    times = Counter(number for message in messages for number in message.keys)
    assert set(times) == {f"k{number}" for number in range(ROWS)}
    twice = {key for key, count in times.items() if count > 1}
    assert twice, "the worker was killed before it had sent anything"
    first = ROWS // PARTITIONS
    assert twice <= {f"k{number}" for number in range(first, first + MIDDLE)}, "only what was sent before is sent again"

    origins = {provenance_of(message) for message in messages}
    assert None not in origins
    assert len(origins) == ROWS, "a row that is sent again says the same of itself"
    assert written.counts.sent == ROWS, "what failed attempts have sent is not counted"


@pytest.mark.one_spark("our producer sends again; Spark has no part in it")
def test_a_broker_that_restarts_during_the_job_costs_no_row(spark: SparkSession, tmp_path: Path) -> None:
    reached, back = tmp_path / "reached", tmp_path / "back"
    for pipe in (reached, back):
        os.mkfifo(pipe)

    def wait_for_restart() -> None:  # opening a pipe waits for the other end
        reached.open("wb").close()
        back.open("rb").close()

    with BlockingLocalCluster(data=tmp_path / "store") as servers:

        def restart() -> None:
            reached.open("rb").close()
            servers.restart_broker(0)
            back.open("wb").close()

        servers.create_topic("Restarted")
        written = sink("Restarted", namesrv=servers.name_server_addresses, value_format="string", **SMALL)
        numbers = spark.sparkContext.parallelize(range(ROWS), PARTITIONS)
        restarting = threading.Thread(target=restart, daemon=True)
        restarting.start()
        numbers.mapPartitionsWithIndex(at_the_middle(wait_for_restart)).foreachPartition(written)
        restarting.join(PATIENCE)
        assert not restarting.is_alive()

        assert {number for message in servers.messages("Restarted") for number in message.keys} == {
            f"k{number}" for number in range(ROWS)
        }
        assert written.counts.sent == ROWS
        assert written.counts.failed == 0
