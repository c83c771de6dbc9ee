"""Many partitions of one row: a producer a worker process, not a producer a partition."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pytest

from rocketpy.spark import sink
from rocketpy_broker_sim import BlockingLocalCluster
from tests.spark.local_spark import TASKS_AT_A_TIME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rocketpy.spark import Sink


def write_with_process(written: Sink, numbers: Iterable[int]) -> None:
    """Send every number, with the process that does so as its key."""

    def rows() -> Iterator[dict[str, str]]:
        for number in numbers:
            yield {"value": str(number), "keys": str(os.getpid())}

    written(rows())


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [200, pytest.param(1_000, marks=pytest.mark.nightly)])
def test_many_partitions_make_no_more_producers_than_worker_processes(
    spark: SparkSession, servers: BlockingLocalCluster, topic: str, partitions: int
) -> None:
    """So many more than workers that a producer for each would show; a task costs some thirty milliseconds."""
    written = sink(topic, namesrv=servers.name_server_addresses, value_format="string")
    numbers = spark.sparkContext.parallelize(range(partitions), partitions)
    numbers.foreachPartition(lambda rows: write_with_process(written, rows))

    messages = servers.messages(topic)
    assert sorted(int(message.body) for message in messages) == list(range(partitions))
    assert written.counts.sent == partitions
    connections = {(message.keys, message.born_host) for message in messages}
    processes = {keys for keys, _host in connections}
    assert len(connections) == len(processes), "a process has connected more than once"
    assert len(processes) <= TASKS_AT_A_TIME
