"""A DataFrame into a topic, one message a row, with PySpark 3.5 or 4.x.

spark-submit examples/spark_sink.py [--namesrv 127.0.0.1:9876]
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession

import rocketpy.spark

ORDERS = [("42", "coffee", 2.5), ("43", "tea", 2.0), ("44", "coffee", 5.0)]


def main() -> None:
    """Send three orders; every one is acknowledged when `foreachPartition` returns."""
    parser = argparse.ArgumentParser(prog="spark_sink")
    parser.add_argument("--namesrv", help='"host:port;host:port"; NAMESRV_ADDR when left out')
    options = parser.parse_args()
    spark = SparkSession.builder.appName("orders").getOrCreate()
    orders = spark.createDataFrame(ORDERS, "id string, drink string, price double")

    columns = {"value": "*", "keys": "id", "tags": "drink"}
    sink = rocketpy.spark.sink("Orders", namesrv=options.namesrv, columns=columns, value_format="json")
    orders.foreachPartition(sink)

    print(f"{sink.counts.sent} orders sent, {sink.counts.bytes} bytes")
    spark.stop()


if __name__ == "__main__":
    main()
