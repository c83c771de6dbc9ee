"""A Spark job that talks as much as it can, with credentials: everything it says and writes is searched for them.

Run by test_secrets.py as ``python -m tests.spark.secret_job HOME NAMESRV``, because the session has an event log and a
log level of its own. The secrets come by environment, so that no command line and no source line shows them.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark_rocketmq import DefaultSource
from rocketpy.spark import Sink, sink
from tests.spark.local_spark import local_session, quick_jvm

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

TOPIC = "Secrets"
BY_FORMAT = "Secrets-by-format"
SENT = 60
TALKATIVE = "this worker writes down all it has to say"
NOWHERE = "127.0.0.1:1"


def signed_sink(namesrv: str, **settings: Any) -> Sink:
    """A sink with every secret that there is."""
    return sink(
        TOPIC,
        namesrv=namesrv,
        value_format="string",
        access_key=os.environ["TEST_ACCESS_KEY"],
        secret_key=os.environ["TEST_SECRET_KEY"],
        security_token=os.environ["TEST_SECURITY_TOKEN"],
        **settings,
    )


def show_error(job: Callable[[], object]) -> None:
    """Fail, and print what a notebook would."""
    try:
        job()
    except Exception:  # noqa: BLE001 - whatever it is, this is about its text
        traceback.print_exc(file=sys.stdout)
    else:
        raise AssertionError("this job should have failed")


def from_a_talkative_worker(row: Row) -> dict[str, str]:
    """Make this worker process write down all that the client in it has to say."""
    logging.basicConfig(level=logging.DEBUG)
    logging.debug(TALKATIVE)
    return {"value": row.value}


def batches(spark: SparkSession, to: Sink) -> None:
    """Send through DataFrames and RDDs."""
    rows = spark.sql("select cast(id as string) as value from range(0, 20, 1, 2)")
    rows.explain("extended")
    rows.explain("formatted")
    rows.foreachPartition(to)
    typed = rows.rdd.map(from_a_talkative_worker)
    typed.foreachPartition(to)
    print(typed.toDebugString().decode())


def stream(spark: SparkSession, to: Sink, home: Path) -> None:
    """Send through a stream."""
    (home / "in").mkdir()
    (home / "in" / "a.txt").write_text("".join(f"{number}\n" for number in range(20)), "utf-8")
    writer = spark.readStream.text(str(home / "in")).writeStream.queryName("signed").foreachBatch(to)
    query = writer.option("checkpointLocation", str(home / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(240)  # on a machine however busy: the test has a limit of its own
    query.explain(True)
    print(query.status, query.lastProgress, query.exception())


def options(namesrv: str) -> dict[str, str]:
    """The same secrets as options of the format."""
    return {
        "namesrv": namesrv,
        "rocketmq.accessKey": os.environ["TEST_ACCESS_KEY"],
        "rocketmq.secretKey": os.environ["TEST_SECRET_KEY"],
        "rocketmq.securityToken": os.environ["TEST_SECURITY_TOKEN"],
    }


def by_format(spark: SparkSession, namesrv: str, home: Path) -> None:
    """Write and read with the format, and fail; PySpark 3.5 does not have it."""
    given = options(namesrv) | {"topic": BY_FORMAT}
    rows = spark.sql("select cast(id as string) as value from range(0, 20, 1, 2)")
    rows.write.format("rocketmq").mode("append").options(**given).save()
    writer = spark.readStream.text(str(home / "in")).writeStream.format("rocketmq").options(**given)
    query = writer.option("checkpointLocation", str(home / "other")).trigger(availableNow=True).start()
    assert query.awaitTermination(240)
    query.explain(True)
    read = spark.read.format("rocketmq").options(**options(namesrv), subscribe=BY_FORMAT).load()
    read.explain("extended")
    assert read.count() == 40
    large = spark.sql("select repeat('x', 6000) as value")
    append = large.write.format("rocketmq").mode("append").options(**given)
    show_error(append.options(**{"rocketmq.maxMessageSize": "4096"}).save)
    show_error(append.options(topik="x").save)


def failures(spark: SparkSession, namesrv: str) -> None:
    """Fail for a row, for its size, for a column and for want of a name server."""
    null = spark.sql("select cast(null as string) as value")
    large = spark.sql("select repeat('x', 6000) as value")
    show_error(lambda: null.foreachPartition(signed_sink(namesrv)))
    show_error(lambda: large.foreachPartition(signed_sink(namesrv, max_message_size=4096)))
    show_error(lambda: large.foreachPartition(signed_sink(namesrv, columns={"value": "payload"})))
    show_error(lambda: large.foreachPartition(signed_sink(NOWHERE, send_timeout=1.0)))
    show_error(lambda: signed_sink(namesrv, no_such_setting=1))


def main() -> None:
    """Run it all."""
    home, namesrv = Path(sys.argv[1]), sys.argv[2]
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    # Below INFO, Py4J writes down every call of the JVM, the pickled function of a job included: so says the guide.
    logging.getLogger("py4j").setLevel(logging.INFO)
    (home / "events").mkdir()
    settings = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{home}/events"}
    settings |= {"spark.executor.memory": "1g", "spark.eventLog.compress": "false"}
    settings |= {"spark.executor.extraJavaOptions": quick_jvm(), "spark.task.maxFailures": "2"}
    with local_session(home / "spark", master=sys.argv[3], settings=settings, level="all") as spark:
        to = signed_sink(namesrv)
        print(repr(to), str(to), vars(to) if hasattr(to, "__dict__") else "")
        batches(spark, to)
        stream(spark, to, home)
        failures(spark, namesrv)
        if DefaultSource is not None:
            by_format(spark, namesrv, home)
        assert to.counts.sent == SENT, to.counts
    print("all of it was said")


if __name__ == "__main__":
    main()
