"""Sends a CSV file through a sink to a consumer group of two, and compares the totals of both sides.

Works with PySpark 3.5 too.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import rocketpy.spark
import rocketpy.sync
from examples.spark_demo.compare import rows_of, show, verdict
from examples.spark_demo.progress import shown
from examples.spark_demo.session import told_in_a_line
from examples.spark_demo.source import Source, own_file
from examples.spark_demo.tally import Tally
from rocketpy.sync import ConsumeFromWhere

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

QUEUES = 8
PATIENCE = 30.0
"""Seconds without a new message after which we stop waiting."""


def compare(
    spark: SparkSession,
    file: Path,
    namesrv: str,
    topic: str,
    group: str | None,
    values: Sequence[str],
    rows: int | None,
) -> bool:
    """Send the file, consume it, and print both totals. Returns whether they are equal."""
    source = own_file(spark, file, group, values, rows)
    by_spark = source.totals()
    total = sum(map(rows_of, by_spark.values()))
    print(f"Spark {spark.version} reads {total:,} rows, {source.name}", flush=True)
    tally = send_and_receive(source, total, namesrv, topic)
    by_messages = tally.totals()
    show(source.group, source.values, by_spark, by_messages)
    equal, said = verdict(source.group, by_spark, by_messages)
    print(f"\n{said}", flush=True)
    return equal


def send_and_receive(source: Source, total: int, namesrv: str, topic: str) -> Tally:
    """Send every row through a sink while the consumers add up; returns when all have arrived, or nothing more does."""
    sink = rocketpy.spark.sink(topic, namesrv=namesrv, columns={"value": "*"}, value_format="json", provenance=True)
    tally = Tally(source.group, source.values)

    def sent() -> int:  # Spark counts only tasks that have ended, but what was received was sent as well
        return max(sink.counts.sent, tally.received)

    with consumers(namesrv, topic, tally), shown(total, {"sent": sent, "received": lambda: tally.received}):
        started = time.perf_counter()
        with told_in_a_line():
            source.rows.foreachPartition(sink)
        sending = time.perf_counter() - started
        await_all(tally, total)
        receiving = time.perf_counter() - started
    print(f"{sink.counts.sent:,} rows sent by Spark in {sending:.1f} s ({sink.counts.bytes:,} bytes)")
    print(f"{tally.received:,} received by two consumers in {receiving:.1f} s, {tally.duplicates} arrived twice\n")
    return tally


@contextlib.contextmanager
def consumers(namesrv: str, topic: str, tally: Tally) -> Iterator[None]:
    """Two consumers of one group that share the queues, both running when the block begins."""
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            consumer = rocketpy.sync.PushConsumer(
                f"spark_demo_{topic}",
                namesrv=namesrv,
                consume_message_batch_max_size=256,
                consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            )
            consumer.subscribe(topic, tally.take)
            stack.enter_context(consumer).wait_assigned(PATIENCE)
        yield


def await_all(tally: Tally, total: int) -> None:
    """Wait until everything has arrived, or nothing more does."""
    last, since = -1, time.monotonic()
    while tally.received < total and time.monotonic() - since < PATIENCE:
        if tally.received != last:
            last, since = tally.received, time.monotonic()
        time.sleep(0.05)
