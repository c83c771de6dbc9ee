"""The messages of a topic by tag, as a batch; or its new messages on the console, as a stream. PySpark 4.

spark-submit examples/spark_read.py TOPIC [--stream CHECKPOINT] [--namesrv 127.0.0.1:9876]
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession


def main() -> None:
    """Count what there is; with a checkpoint, show what has arrived since the last run."""
    parser = argparse.ArgumentParser(prog="spark_read")
    parser.add_argument("topic")
    parser.add_argument("--stream", metavar="CHECKPOINT")
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help='"host:port;host:port"')
    arguments = parser.parse_args()
    spark = SparkSession.builder.appName("topic").getOrCreate()
    options = {"namesrv": arguments.namesrv, "subscribe": arguments.topic, "valueFormat": "string"}
    if arguments.stream is None:
        messages = spark.read.format("rocketmq").options(**options).load()
        messages.groupBy("tags").count().orderBy("tags").show()
        return
    arriving = spark.readStream.format("rocketmq").options(**options, startingOffsets="earliest").load()
    query = arriving.select("offset", "timestamp", "value").writeStream.format("console")
    query.option("checkpointLocation", arguments.stream).trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()
