"""Work off what is new in a topic, round after round, with an RDD. PySpark 3.5 and 4.

spark-submit examples/spark_rdd.py TOPIC [--group GROUP] [--rounds ROUNDS] [--namesrv 127.0.0.1:9876]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable

from pyspark.sql import SparkSession

import rocketpy.spark
from rocketpy import MessageExt


def work(messages: Iterable[MessageExt]) -> None:
    """What a task does with the messages of its partition."""
    for message in messages:
        print(message.queue, message.queue_offset, message.keys, message.value)


def main() -> None:
    """Go on where the group is, and commit what is done."""
    parser = argparse.ArgumentParser(prog="spark_rdd")
    parser.add_argument("topic")
    parser.add_argument("--group", default="rounds")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help='"host:port;host:port"')
    arguments = parser.parse_args()
    context = SparkSession.builder.appName("rounds").getOrCreate().sparkContext
    for number in range(arguments.rounds):
        time.sleep(10 if number else 0)
        settings = {"namesrv": arguments.namesrv, "group": arguments.group}
        messages = rocketpy.spark.rdd(context, arguments.topic, start="committed", **settings)
        messages.foreachPartition(work)
        rocketpy.spark.commit_offsets(messages)
        ranges = rocketpy.spark.offset_ranges(messages)
        print(f"{sum(each.size for each in ranges)} offsets in {messages.getNumPartitions()} partitions")


if __name__ == "__main__":
    main()
