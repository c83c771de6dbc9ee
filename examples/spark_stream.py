"""Every line of the files that arrive in a directory into a topic, as a stream, with PySpark 3.5 or 4.x.

spark-submit examples/spark_stream.py DIRECTORY CHECKPOINT [--namesrv 127.0.0.1:9876]
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession

import rocketpy.spark


def main() -> None:
    """Send what is there and not yet sent; run again with the same checkpoint, it goes on where it was."""
    parser = argparse.ArgumentParser(prog="spark_stream")
    parser.add_argument("directory")
    parser.add_argument("checkpoint")
    parser.add_argument("--namesrv", help='"host:port;host:port"; NAMESRV_ADDR when left out')
    options = parser.parse_args()
    spark = SparkSession.builder.appName("lines").getOrCreate()
    sink = rocketpy.spark.sink(
        "Lines", namesrv=options.namesrv, value_format="string", bad_rows="skip", provenance=True
    )
    lines = spark.readStream.text(options.directory)
    stream = lines.writeStream.foreachBatch(sink).option("checkpointLocation", options.checkpoint)
    stream.trigger(availableNow=True).start().awaitTermination()
    print(f"lines sent: {sink.counts.sent}, empty ones skipped: {sink.counts.skipped}")


if __name__ == "__main__":
    main()
