"""Real rows through Spark and RocketMQ, with totals of both ends compared: `./dev spark-demo`.

    python -m examples.spark_demo [--rows N] [--out DIR] [--namesrv ADDRESS]
    python -m examples.spark_demo FILE [--group COLUMN] [--value COLUMN]... [--rows N] [--namesrv ADDRESS]

The flights of a year go to a topic. Two streaming queries read it and compute delays for each carrier and hour, into a
second topic and into Parquet. This needs PySpark 4.2 or newer. With FILE, the rows of this CSV file go to a topic, and
a consumer group with two members sums up what arrives. Without --namesrv, a name server and a broker run in a separate
process. The exit status is 1 if the totals differ.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from pathlib import Path

import rocketpy
import rocketpy.sync
from examples.quickstart.records import UnreadableInputError
from examples.spark_demo import pipeline, two_consumers
from examples.spark_demo.java import NoSparkError, check_java
from examples.spark_demo.server import own_server
from examples.spark_demo.session import FailedJobError, session
from examples.spark_demo.source import check_flights


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="spark-demo", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "file", nargs="?", type=Path, help="CSV file with a header line (default: the flights of a year)"
    )
    parser.add_argument("--namesrv", help='name servers "host:port;host:port" of a running cluster')
    parser.add_argument("--rows", type=_positive, help="use only the first ROWS rows")
    parser.add_argument("--out", type=Path, help="without FILE: a new directory for Parquet, plot and checkpoints")
    parser.add_argument("--group", help="with FILE: the column to group by (default: the first)")
    parser.add_argument(
        "--value",
        action="append",
        default=[],
        help="with FILE: a column to sum up (default: the first two numbers)",
    )
    options = parser.parse_args()
    if options.file is None and (options.group or options.value):
        parser.error("--group and --value are for a CSV file: name it first")
    if options.file is not None and options.out:
        parser.error("--out is for the flights: with a CSV file, nothing is written")
    return options


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, not {text!r}")
    return int(text)


def run(options: argparse.Namespace) -> bool:
    """The whole job. Returns whether the totals are equal."""
    topic = f"SparkDemo_{time.time_ns() // 1_000_000:x}"
    check_java()
    if options.file is None:
        pipeline.check_spark()
        check_flights()
    elif not options.file.is_file():
        raise UnreadableInputError(f"{options.file} is not a file")
    with contextlib.ExitStack() as stack:
        out = None if options.file else pipeline.results_in(options.out)
        address = options.namesrv or stack.enter_context(own_server())
        with rocketpy.sync.Producer("spark_demo", namesrv=address) as producer:
            wanted = {topic: two_consumers.QUEUES} if options.file else pipeline.topics(topic)
            for name, queues in wanted.items():
                producer.create_topic(name, queues=queues)
        print(f"topic {topic} at {address}; starting Spark", flush=True)
        spark = stack.enter_context(session("spark-demo"))
        if out is None:
            return two_consumers.compare(
                spark, options.file, address, topic, options.group, options.value, options.rows
            )
        return pipeline.Pipeline(spark, address, topic, out).run(options.rows)


def main() -> int:
    """Run, and return the exit status."""
    options = arguments()
    try:
        equal = run(options)
    except (UnreadableInputError, NoSparkError, FailedJobError, rocketpy.RocketMQError) as exc:
        print(f"spark-demo: {exc}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0 if equal else 1


if __name__ == "__main__":
    raise SystemExit(main())
