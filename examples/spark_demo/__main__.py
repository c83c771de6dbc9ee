"""Let Spark send every flight (or every row of a CSV file), consume them, and compare totals of both ends.

    python -m examples.spark_demo [FILE] [--namesrv ADDRESS] [--group COLUMN] [--value COLUMN]...

Spark reads the rows as a DataFrame and adds them up by group; a sink sends each of them; a consumer group of two adds
up what arrives. Without --namesrv a name server and a broker run in a process of their own. Exits with 1 when the
totals differ.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import rocketpy.spark
import rocketpy.sync
from examples.quickstart.records import UnreadableInputError
from examples.spark_demo.compare import rows_of, show, verdict
from examples.spark_demo.java import NoSparkError, check_java
from examples.spark_demo.progress import shown
from examples.spark_demo.server import own_server
from examples.spark_demo.session import FailedJobError, session, told_in_a_line
from examples.spark_demo.source import Source, flights, own_file
from examples.spark_demo.tally import Tally
from rocketpy.sync import ConsumeFromWhere

QUEUES = 8
PATIENCE = 30.0
"""Seconds without a new message after which we stop waiting."""


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="spark-demo", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("file", nargs="?", type=Path, help="CSV with a header line; the flights without it")
    parser.add_argument("--namesrv", help='name servers "host:port;host:port" of a running cluster')
    parser.add_argument("--group", help="column whose values are compared one by one; the first one without it")
    parser.add_argument("--value", action="append", default=[], help="column to sum up; the first two numbers without")
    return parser.parse_args()


@contextlib.contextmanager
def consumers(namesrv: str, topic: str, tally: Tally) -> Iterator[None]:
    """Two consumers of one group that share the queues, both at work when the block begins."""
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


def send_and_receive(source: Source, total: int, namesrv: str, topic: str) -> Tally:
    """Send every row through a sink while the consumers add up; returns when all arrived, or no more does."""
    columns = {"value": "*"} | ({"tags": "carrier"} if source.group == "carrier" else {})
    sink = rocketpy.spark.sink(topic, namesrv=namesrv, columns=columns, value_format="json", provenance=True)
    tally = Tally(source.group, source.values)

    def sent() -> int:  # Spark tells of tasks that have ended; what was received was sent as well
        return max(sink.counts.sent, tally.received)

    with consumers(namesrv, topic, tally), shown(total, sent, lambda: tally.received):
        started = time.perf_counter()
        with told_in_a_line():
            source.rows.foreachPartition(sink)
        sending = time.perf_counter() - started
        await_all(tally, total)
        receiving = time.perf_counter() - started
    print(f"{sink.counts.sent:,} rows sent by Spark in {sending:.1f} s ({sink.counts.bytes:,} bytes)")
    print(f"{tally.received:,} received by two consumers in {receiving:.1f} s, {tally.duplicates} came twice\n")
    return tally


def await_all(tally: Tally, total: int) -> None:
    """Wait until everything arrived, or nothing more does."""
    last, since = -1, time.monotonic()
    while tally.received < total and time.monotonic() - since < PATIENCE:
        if tally.received != last:
            last, since = tally.received, time.monotonic()
        time.sleep(0.05)


def run(file: Path | None, namesrv: str | None, group: str | None, values: list[str]) -> bool:
    """The whole job. Returns whether the totals are equal."""
    topic = f"SparkDemo_{time.time_ns() // 1_000_000:x}"
    check_java()
    if file is not None and not file.is_file():
        raise UnreadableInputError(f"{file} is not a file")
    with contextlib.ExitStack() as stack:
        address = namesrv or stack.enter_context(own_server())
        with rocketpy.sync.Producer("spark_demo", namesrv=address) as producer:
            producer.create_topic(topic, queues=QUEUES)
        print(f"topic {topic} at {address}; starting Spark", flush=True)
        spark = stack.enter_context(session("spark-demo"))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spark-demo-")))
        source = own_file(spark, file, group, values) if file else flights(spark, folder)
        by_spark = source.totals()
        total = sum(map(rows_of, by_spark.values()))
        print(f"Spark {spark.version} reads {total:,} rows, {source.name}", flush=True)
        tally = send_and_receive(source, total, address, topic)
    by_messages = tally.totals()
    show(source.group, source.values, by_spark, by_messages)
    equal, said = verdict(source.group, by_spark, by_messages)
    print(f"\n{said}", flush=True)
    return equal


def main() -> int:
    """Run, and say how it went by the exit code."""
    options = arguments()
    try:
        equal = run(options.file, options.namesrv, options.group, options.value)
    except (UnreadableInputError, NoSparkError, FailedJobError, rocketpy.RocketMQError) as exc:
        print(f"spark-demo: {exc}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0 if equal else 1


if __name__ == "__main__":
    raise SystemExit(main())
