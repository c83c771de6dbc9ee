"""Deliveries of the Spark sink on Apache's brokers: the topic of the markers, markers, and the search for stored rows.

Spark has no part in what brokers answer, so a few lines stand in for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from rocketpy.spark import sink
from rocketpy.spark.delivery import batches, stored_rows
from rocketpy.spark.producers import producers
from rocketpy.wire.message_codec import decode_messages
from tests.interop import probe
from tests.interop.questions import PULL, pull
from tests.sink.spark_stand_in import Died, Spark

if TYPE_CHECKING:
    from rocketpy.message import MessageExt
    from rocketpy.spark.sink import Sink
    from tests.interop.apache import Cluster

pytestmark = [pytest.mark.interop, pytest.mark.waits("for Apache's servers, and before stored rows are looked for")]

ROWS, QUEUES = 60, 2
Row = tuple[bytes, str]


def part(batch: int, partition: int) -> list[Row]:
    """The rows of a partition of a micro-batch."""
    return [(b"%d-%d-%d" % (batch, partition, number), f"k{number}") for number in range(ROWS)]


def stored(cluster: Cluster, topic: str, queues: int) -> list[MessageExt]:
    """All messages of a topic on the only broker, as it answers a plain pull."""
    found: list[MessageExt] = []
    for queue in range(queues):
        offset = 0
        while True:
            answer = probe.call(cluster.brokers[0].address, PULL, pull(topic, queueId=queue, queueOffset=offset))
            messages = decode_messages(answer.body) if answer.code == 0 else []
            if not messages:
                break
            found += messages
            offset = messages[-1].queue_offset + 1
    return found


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spark]:
    made = Spark(monkeypatch)
    monkeypatch.setattr(stored_rows, "CLOCKS_DIFFER", 50)  # so little that the search by time has to be right
    yield made
    made.restart()
    batches._last.clear()
    producers().close()


def test_rows_are_stored_once_when_tasks_and_drivers_die(
    spark: Spark, apache_cluster: Cluster, fresh_name: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    topic, markers = fresh_name("Once"), fresh_name("Markers")
    apache_cluster.create_topic(topic, queues=QUEUES)  # that of the markers is made by the sink

    def to(delivery: str = "effectively-once", **settings: str) -> Sink:
        given = {"columns": {"value": 0, "keys": 1}, "batch_size": 5, "back_pressure_for_async_send_num": 10}
        return sink(topic, namesrv=apache_cluster.namesrv, delivery=delivery, marker_topic=markers, **given, **settings)

    def kinds(count: int) -> list[str | None]:
        """The kinds of the markers, once there are so many; what was stored before them can be read then too."""

        def look() -> list[str | None] | None:
            found = [each.tags for each in stored(apache_cluster, markers, 1)]
            return found if len(found) >= count else None

        return probe.eventually(look, f"{count} markers", 20.0)

    to()(spark.frame(part(0, 0), part(0, 1), dies=(1, 50)), 0)
    assert kinds(4) == ["begin", "begin", "begin", "commit"]
    assert f"messages of partition 1 are in the topic {topic} already" in caplog.text

    with pytest.raises(Died):
        to()(spark.frame(part(1, 0), part(1, 1), dies=(1, 50), attempts=1), 1)
    spark.restart()
    to()(spark.frame(part(1, 0), part(1, 1), run="run-2"), 1)
    assert f"{ROWS} messages of partition 0 are in the topic {topic} already" in caplog.text

    spark.restart()
    for run in ("run-3", "run-4"):
        to()(spark.frame(part(1, 0), part(1, 1), run=run), 1)
        to("commit-marker", job_id="marked")(spark.frame(part(2, 0), part(2, 1), run=run), 2)
        spark.restart()
    assert kinds(10)[4:] == ["begin"] * 4 + ["commit"] * 2
    times = Counter(each.body for each in stored(apache_cluster, topic, QUEUES))
    assert times == {row[0]: 1 for batch in range(3) for partition in range(2) for row in part(batch, partition)}
