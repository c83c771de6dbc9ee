"""What tasks send and report, and what the driver logs at the end of a write."""

from __future__ import annotations

import logging
import pickle

import pytest

from rocketpy.errors import ConfigError, RowError
from rocketpy.spark import Counts, provenance_of, sink, task
from rocketpy.spark.task import Task
from rocketpy.spark.writer.writing import Written
from rocketpy_broker_sim import BlockingLocalCluster


class Context:
    """The task of Spark that a test pretends to run in."""

    def __init__(self, partition=0, stage=7, **properties):
        self.properties = properties
        self._partition = partition
        self._stage = stage

    def getLocalProperty(self, name):
        return self.properties.get(name)

    def stageId(self):
        return self._stage

    def partitionId(self):
        return self._partition

    def attemptNumber(self):
        return 0

    def taskAttemptId(self):
        return 1


@pytest.fixture
def run_in(monkeypatch):
    """Pretends that this process runs a task."""
    return lambda context: monkeypatch.setattr(task, "_task_context", lambda: context)


IN_BATCH_7 = {"sql.streaming.queryId": "41c4e3b5", "streaming.sql.batchId": "7"}


def test_a_task_reports_what_it_has_sent(write, run_in, cluster, namesrv, topic):
    made = pickle.loads(pickle.dumps(write(namesrv=namesrv, topic=topic)))
    run_in(Context(partition=3))
    written = made.write(iter([(b"a",), (b"bc",)]), columns=("value",))
    assert written == Written(counts=Counts(2, 0, 0, 3), partition=3)
    assert sorted(each.body for each in cluster.messages(topic)) == [b"a", b"bc"]


def test_a_task_of_a_micro_batch_says_which_one(write, run_in, cluster, namesrv, topic):
    made = write(namesrv=namesrv, topic=topic, provenance="true", streamed=True)
    run_in(Context(partition=1, **IN_BATCH_7))
    written = made.write(iter([(b"a",)]), columns=("value",))
    assert (written.query, written.batch, written.partition) == ("41c4e3b5", 7, 1)
    (message,) = cluster.messages(topic)
    assert provenance_of(message) == (topic, "41c4e3b5", 7, 1, 1, True)


def test_a_job_id_stands_for_the_query(write, run_in, namesrv, topic):
    run_in(Context(**IN_BATCH_7))
    assert write(namesrv=namesrv, topic=topic, jobId="mine", streamed=True).write(iter([])).query == "mine"


def test_provenance_without_a_query_is_refused(write, run_in):
    made = write(provenance="true", streamed=True)
    for properties in ({}, {"sql.streaming.queryId": "q"}, {**IN_BATCH_7, "streaming.sql.batchId": "x"}):
        run_in(Context(**properties))
        with pytest.raises(ConfigError, match=r"provenance needs the (id of the query|micro-batch)"):
            made.write(iter([(b"a",)]), columns=("value",))


def test_a_batch_write_is_the_same_one_in_another_stage(write, run_in, cluster, namesrv, topic):
    made = write(namesrv=namesrv, topic=topic, provenance="true")
    for stage in (1, 2):
        run_in(Context(stage=stage))
        made.write(iter([(b"a",)]), columns=("value",))
    first, second = map(provenance_of, cluster.messages(topic))
    assert first == second == (topic, made.run, None, 0, 1, False)


def test_tuples_become_the_messages_that_rows_become(write, cluster, namesrv, topic):
    """The same parts, by the same rules, whichever way the rows come."""
    from tests.serialization.rows import Row

    names = ("value", "keys", "tags", "properties", "sharding_key", "noise")
    values = ["text", ["a", "b"], "tag", {"color": "blue", "none": None}, "shard", 5]
    kinds = {"keys": {"type": "array", "elementType": "string"}, "noise": "long"}
    kinds["properties"] = {"type": "map", "keyType": "string", "valueType": "string"}
    plain = {"namesrv": namesrv, "topic": topic, "provenance": "false"}
    made = write({name: kinds.get(name, "string") for name in names}, **plain)
    picked = made.selection
    made.write(iter([tuple(values[place] for place in picked.places)]), columns=picked.columns)
    sink(topic, namesrv=namesrv, value_format="string")([Row(**dict(zip(names, values, strict=True)))])
    first, second = [
        {name: text for name, text in each.wire_properties.items() if name not in ("UNIQ_KEY", "__CRC32#")}
        | {"body": each.body}
        for each in cluster.messages(topic)
    ]
    assert first == second


def test_a_bad_row_is_named_and_nothing_is_counted(write, run_in, namesrv, topic):
    made = write({"value": "binary", "keys": "string"}, namesrv=namesrv, topic=topic)
    run_in(Context(partition=2))
    with pytest.raises(RowError, match=r"row 2 of partition 2 \(keys 'k2'\): the value is null"):
        made.write(iter([(b"a", "k1"), (None, "k2")]), columns=("value", "keys"))
    skipping = write({"value": "binary", "keys": "string"}, namesrv=namesrv, topic=topic, badRows="skip")
    assert skipping.write(iter([(b"a", "k1"), (None, "k2")]), columns=("value", "keys")).counts == (1, 0, 1, 1)


@pytest.fixture
def dying(tmp_path):
    """A cluster, and rows whose last ones come when its broker is gone."""
    with BlockingLocalCluster(data=tmp_path / "store") as cluster:
        cluster.create_topic("Dying")

        def rows():
            yield from ((b"%d" % number,) for number in range(300))
            cluster.wait_messages("Dying", 200)
            cluster.kill_broker(0)
            yield from ((b"%d" % number,) for number in range(300, 500))

        yield cluster, rows()


IN_FLIGHT = 100
SMALL_FRAMES = {
    "batchSize": "100",
    "rocketmq.sendTimeout": "1",
    "rocketmq.backPressureForAsyncSendNum": str(IN_FLIGHT),
}


@pytest.mark.waits("a send that fails is tried again, in the loop of the portal")
@pytest.mark.parametrize("failed_sends", ["fail", "count"])
def test_a_broker_that_dies_in_the_middle(write, dying, failed_sends):
    """What is counted as sent is stored; besides, what was in flight may be, if its answers died with the broker."""
    cluster, rows = dying
    given = {"namesrv": cluster.name_server_addresses, "topic": "Dying", "failedSends": failed_sends}
    made = write(**given, **SMALL_FRAMES)
    if failed_sends == "fail":
        with pytest.raises(RowError, match=r"its frame with \d+ rows, .* was not sent"):
            made.write(rows, columns=("value",))
        return
    counts = made.write(rows, columns=("value",)).counts
    cluster.start_broker(0)
    stored = len({message.body for message in cluster.messages("Dying")})  # a frame that is late is sent again
    assert 200 <= stored <= 300
    assert stored - IN_FLIGHT <= counts.sent <= stored
    assert counts.sent + counts.failed == 500


def test_a_name_server_that_is_away(write):
    made = write(namesrv="127.0.0.1:1", **{"rocketmq.sendTimeout": "1"})
    with pytest.raises(RowError, match=r"row 1 of partition 0: .*127\.0\.0\.1:1"):
        made.write(iter([(b"a",)]), columns=("value",))


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, "rocketpy.spark.writer")
    return lambda: [(record.levelname, record.getMessage()) for record in caplog.records]


def written(partition, sent, **more):
    return Written(counts=Counts(sent, 0, 1, 10 * sent), partition=partition, **more)


def test_the_counts_are_logged_once(write, lines):
    write().commit([written(0, 5), written(1, 7)])
    assert lines() == [("INFO", "a write to Orders is done: 12 messages sent (120 bytes), 2 rows skipped, 0 given up")]


def test_a_micro_batch_is_named(write, lines):
    made = write({"value": "binary", "topic": "string"}, topic=None, streamed=True)
    made.commit([written(0, 5, query="q", batch=3)], 3)
    made.commit([], 4)
    assert [line.partition(" is done")[0] for _, line in lines()] == [
        "micro-batch 3 of q to the topics of its rows",
        "micro-batch 4 of a query to the topics of its rows",
    ]


def test_what_a_failed_write_has_sent_is_logged(write, lines):
    write().abort([written(0, 5), None])
    ((level, line),) = lines()
    assert level == "WARNING"
    assert "1 of 2 tasks had ended, and their 5 messages stay in the topic" in line


def test_outside_of_a_task_there_is_no_micro_batch(monkeypatch):
    monkeypatch.setattr(task, "_task_context", lambda: None)
    assert task.micro_batch() == (None, None)
    assert Task.here() == Task()
