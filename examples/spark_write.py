"""A DataFrame into a topic with format("rocketmq"); or the lines of files that arrive, as a stream. PySpark 4.

spark-submit examples/spark_write.py TOPIC [--stream DIRECTORY CHECKPOINT] [--namesrv 127.0.0.1:9876]
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession

ORDERS = [("42", "coffee", 2.5), ("43", "tea", 2.0), ("44", "coffee", 5.0)]


def main() -> None:
    """Send three orders; with a directory, send the lines of its files that no earlier run has sent."""
    parser = argparse.ArgumentParser(prog="spark_write")
    parser.add_argument("topic")
    parser.add_argument("--stream", nargs=2, metavar=("DIRECTORY", "CHECKPOINT"))
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help='"host:port;host:port"')
    arguments = parser.parse_args()
    spark = SparkSession.builder.appName("topic").getOrCreate()
    options = {"namesrv": arguments.namesrv, "topic": arguments.topic}
    if arguments.stream is None:
        orders = spark.createDataFrame(ORDERS, "id string, drink string, price double")
        columns = '{"value": "*", "keys": "id", "tags": "drink"}'
        orders.write.format("rocketmq").mode("append").options(**options, columns=columns, valueFormat="json").save()
        return
    directory, checkpoint = arguments.stream
    lines = spark.readStream.text(directory).writeStream.format("rocketmq")
    query = lines.options(**options, badRows="skip", provenance="true", checkpointLocation=checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()
