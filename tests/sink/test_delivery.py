"""What is stored once, by the level of delivery, when tasks and drivers die: with a Spark of a few lines."""

from __future__ import annotations

import itertools
import json
import pickle
import sys
from collections import Counter

import pytest

from rocketpy.errors import ConfigError, RocketMQError, RowError
from rocketpy.spark import provenance_of, sink
from rocketpy.spark.delivery import away, batches, marker_log, stored_rows, tasks
from rocketpy.spark.producers import producers
from rocketpy.spark.source.clients import clients
from rocketpy.sync import Admin
from rocketpy_broker_sim import BlockingLocalCluster
from tests.sink.spark_stand_in import ROWS, Died, part


@pytest.fixture
def kinds(cluster, topic):
    """The kinds of the markers, in their order."""
    return lambda: [message.tags for message in cluster.messages(f"Markers-{topic}")]


ALL = {row[0]: 1 for partition in range(2) for row in part(partition)}


# --- the windows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("delivery", ["at-least-once", "commit-marker", "effectively-once"])
def test_a_task_that_dies_half_way_and_is_run_again(spark, to, times, delivery):
    to(delivery)(spark.frame(part(0), part(1), dies=(1, 50)), 0)
    assert times().keys() == ALL.keys()
    assert (times() == ALL) == (delivery == "effectively-once")


@pytest.mark.slow
@pytest.mark.parametrize("delivery", ["at-least-once", "commit-marker", "effectively-once"])
@pytest.mark.parametrize("dies", [(0, 30), (1, 50), (1, ROWS)])
def test_a_driver_that_dies_before_the_marker(spark, to, times, delivery, dies):
    with pytest.raises(Died):
        to(delivery)(spark.frame(part(0), part(1), dies=dies, attempts=1), 0)
    spark.restart()
    to(delivery)(spark.frame(part(0), part(1), run="run-2"), 0)
    assert times().keys() == ALL.keys()
    assert (times() == ALL) == (delivery == "effectively-once")


@pytest.mark.slow
@pytest.mark.parametrize("delivery", ["at-least-once", "commit-marker", "effectively-once"])
def test_a_driver_that_dies_after_the_marker(spark, to, times, kinds, delivery, caplog):
    to(delivery)(spark.frame(part(0), part(1)), 0)
    spark.restart()
    to(delivery)(spark.frame(part(0), part(1), run="run-2"), 0)
    assert (times() == ALL) == (delivery != "at-least-once")
    if delivery != "at-least-once":
        assert kinds().count("commit") == 1
        assert "micro-batch 0 of query-1 has been written already" in caplog.text


@pytest.mark.slow
@pytest.mark.waits("an answer that never comes, over real sockets: three seconds")
def test_a_driver_that_dies_while_the_marker_is_on_its_way(monkeypatch, spark, to, times, cluster):
    """It is stored, and the answer does not come back: the micro-batch fails."""
    written = to(retry_times_when_send_failed=0, send_timeout=3.0)
    written(spark.frame(part(0)), 0)
    real = marker_log.MarkerLog.commit

    def without_answer(*arguments):
        cluster.lose_answers(1)
        real(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(marker_log.MarkerLog, "commit", without_answer)
        with pytest.raises(RocketMQError):
            written(spark.frame(part(1)), 1)
    spark.restart()
    to()(spark.frame(part(1), run="run-2"), 1)
    assert times() == ALL


@pytest.mark.slow
@pytest.mark.waits("an answer that never comes, over real sockets: three seconds")
def test_a_lost_answer_of_a_frame_when_the_task_sends_nothing_twice(spark, to, times, cluster):
    written = to(retry_times_when_send_failed=0, send_timeout=3.0)
    written(spark.frame(part(0)), 0)  # so that the route is known

    def losing(rows):
        for number, row in enumerate(rows):
            if number == 20:
                cluster.lose_answers(1)
            yield row

    frame = spark.frame(part(1), attempts=1)
    real = frame._rows
    frame._rows = lambda *arguments: losing(real(*arguments))
    with pytest.raises(RowError):
        written(frame, 1)
    written(spark.frame(part(1), run="run-2"), 1)
    assert times() == ALL


@pytest.mark.slow
def test_a_micro_batch_dies_several_times(spark, to, times):
    for number, dies in enumerate([(0, 20), (0, 45), (1, 15), (1, 55), None]):
        spark.restart()
        try:
            to()(spark.frame(part(0), part(1), run=f"run-{number}", dies=dies, attempts=1), 4)
        except Died:
            continue
    assert times() == ALL


@pytest.mark.slow
@pytest.mark.parametrize("is_back", [True, False])
def test_a_broker_that_is_away_when_a_task_is_run_again(monkeypatch, spark, is_back):
    """Its messages cannot be found, and it brings them back."""
    monkeypatch.setattr(away, "_BACK_WITHIN", 60.0 if is_back else 0.0)
    monkeypatch.setattr(away, "_BACK_PAUSE", 0.0)
    with BlockingLocalCluster(brokers=2) as cluster:
        cluster.create_topic("Orders", queues=2)
        columns = {"value": 0, "keys": 1}
        written = sink("Orders", namesrv=cluster.name_server_addresses, columns=columns, delivery="effectively-once")
        frame = spark.frame(part(0, 3000), dies=(0, 2800))
        real = frame._rows

        def stopping(partition, rows, attempt):
            if attempt:
                cluster.stop_broker(1)
            return real(partition, rows, attempt)

        frame._rows = stopping
        if is_back:
            real_read = marker_log.MarkerLog.read_on
            reads = itertools.count()

            def starting(log, **how):
                state = real_read(log, **how)
                if "broker-b" not in log._brokers and next(reads) == 1:
                    cluster.start_broker(1)
                return state

            monkeypatch.setattr(marker_log.MarkerLog, "read_on", starting)
            written(frame, 0)
        else:
            with pytest.raises(RocketMQError, match=r"at broker-b now.*be stored twice"):
                written(frame, 0)
            cluster.start_broker(1)
            written(spark.frame(part(0, 3000), run="run-2"), 0)
        assert Counter(message.body for message in cluster.messages("Orders")) == {row[0]: 1 for row in part(0, 3000)}


@pytest.mark.slow
@pytest.mark.parametrize("is_back", [True, False])
def test_a_broker_without_markers_that_is_away_when_a_task_is_run_again(monkeypatch, spark, is_back):
    """As one that was added after the topic of the markers was created."""
    monkeypatch.setattr(away, "_BACK_WITHIN", 60.0 if is_back else 0.0)
    monkeypatch.setattr(away, "_BACK_PAUSE", 0.0)
    with BlockingLocalCluster(brokers=2) as cluster:
        cluster.create_topic("Orders", queues=2)
        with Admin(namesrv=cluster.name_server_addresses) as admin:
            admin.topics.create("Markers", queues=1, brokers=["broker-a"])
        written = sink(
            "Orders",
            namesrv=cluster.name_server_addresses,
            columns={"value": 0, "keys": 1},
            delivery="effectively-once",
            marker_topic="Markers",
        )
        frame = spark.frame(part(0, 3000), dies=(0, 2800))
        real_names = stored_rows.Brokers.names
        looks = itertools.count()

        def names(brokers, topic):
            """The driver looks first. The broker is away after that, and back for the third look."""
            number = next(looks)
            if number == 1:
                cluster.stop_broker(1)
            elif number == 2 and is_back:
                cluster.start_broker(1)
            return real_names(brokers, topic)

        monkeypatch.setattr(stored_rows.Brokers, "names", names)
        if is_back:
            written(frame, 0)
        else:
            with pytest.raises(RocketMQError, match=r"at broker-b now.*be stored twice"):
                written(frame, 0)
            cluster.start_broker(1)
            written(spark.frame(part(0, 3000), run="run-2"), 0)
        assert next(looks) >= 3
        assert Counter(message.body for message in cluster.messages("Orders")) == {row[0]: 1 for row in part(0, 3000)}


@pytest.mark.slow
@pytest.mark.parametrize("delivery", ["commit-marker", "effectively-once"])
def test_the_topic_of_the_markers_is_deleted_amid_a_query(spark, to, times, kinds, namesrv, topic, delivery):
    """The clients of the process may have been closed since, as those that were not used."""
    written = to(delivery)
    written(spark.frame(part(0)), 0)
    with Admin(namesrv=namesrv) as admin:
        admin.topics.delete(f"Markers-{topic}")
    producers().close()
    clients().close()
    written(spark.frame(part(1), dies=(0, 50) if delivery == "effectively-once" else None), 1)
    assert times() == ALL
    assert kinds()[-1] == "commit"
    assert kinds().count("commit") == 1


@pytest.mark.slow
@pytest.mark.parametrize("delivery", ["commit-marker", "effectively-once"])
def test_a_job_is_run_again_on_servers_without_its_messages(spark, to, times, cluster, namesrv, topic, delivery):
    """What the process knows of the servers before is no reason to leave rows out."""
    to(delivery, job_id="job")(spark.frame(part(0), part(1)), 0)
    assert times() == ALL
    with Admin(namesrv=namesrv) as admin:
        for each in (topic, f"Markers-{topic}"):
            admin.topics.delete(each)
    cluster.create_topic(topic, queues=2)
    assert not times()
    to(delivery, job_id="job")(spark.frame(part(0), part(1), run="run-2"), 0)
    assert times() == ALL


# --- what is left out, and what is not --------------------------------------------------------------------


def test_messages_of_others_are_not_taken_for_stored_ones(spark, to, times, cluster, topic):
    others = [
        to("at-least-once", provenance=True, job_id="query-2"),
        to("at-least-once"),
    ]
    for other in others:
        other(spark.frame(part(0), part(1)), 0)
    to()(spark.frame(part(0), part(1), query="query-1"), 7)  # another micro-batch with the same rows
    with pytest.raises(Died):
        to()(spark.frame(part(0), part(1), dies=(1, 30), attempts=1), 8)
    others[0](spark.frame(part(0), part(1)), 1)
    to()(spark.frame(part(0), part(1), run="run-2"), 8)
    assert set(times().values()) == {5}
    marks = Counter(provenance_of(message) for message in cluster.messages(topic))
    assert len({origin for origin in marks if origin is not None and origin.source == "query-1"}) == 4 * ROWS
    del marks[None]
    assert set(marks.values()) == {1}


def test_rows_without_messages_keep_the_numbers_right(spark, to, times):
    rows = part(0)
    rows[10:13] = [(None, "n")] * 3
    written = to(bad_rows="skip")
    written(spark.frame(rows, dies=(0, 40)), 0)
    assert times() == {row[0]: 1 for row in rows if row[0] is not None}


def test_a_topic_for_each_row_is_searched_when_it_comes(spark, to, cluster, topic):
    cluster.create_topic(f"{topic}-b")
    rows = [(*row, topic if number % 3 else f"{topic}-b") for number, row in enumerate(part(0))]
    settings = {"topic": None, "columns": {"value": 0, "topic": 2}}
    with pytest.raises(Died):
        to(**settings)(spark.frame(rows, dies=(0, 40), attempts=1), 0)
    to(**settings)(spark.frame(rows, run="run-2"), 0)
    found = Counter(message.body for name in (topic, f"{topic}-b") for message in cluster.messages(name))
    assert found == {row[0]: 1 for row in part(0)}


def test_rows_are_not_taken_for_markers(spark, to, cluster, topic):
    """Although they have the same topic and the same tags."""
    rows = [(*row, topic, "commit") for row in part(0)]
    settings = {"topic": None, "columns": {"value": 0, "topic": 2, "tags": 3}, "marker_topic": topic}
    with pytest.raises(Died):
        to(**settings)(spark.frame(rows, dies=(0, 40), attempts=1), 0)
    to(**settings)(spark.frame(rows, run="run-2"), 0)
    found = Counter(message.body for message in cluster.messages(topic))
    assert {row[0]: found[row[0]] for row in rows} == {row[0]: 1 for row in rows}


def test_rows_in_another_order_are_noticed(spark, to):
    with pytest.raises(Died):
        to()(spark.frame(part(0), dies=(0, 40), attempts=1), 0)
    with pytest.raises(
        RowError, match=r"an earlier attempt has stored another value for this row.*dedupe_key"
    ) as caught:
        to()(spark.frame(part(0)[::-1], run="run-2"), 0)
    assert (caught.value.row, caught.value.partition, caught.value.keys) == (1, 0, (f"k0-{ROWS - 1}",))


@pytest.mark.slow
def test_with_a_key_rows_may_come_in_another_order_and_partition(spark, to, times):
    with pytest.raises(Died):
        to(dedupe_key=1)(spark.frame(part(0), part(1), dies=(1, 40), attempts=1), 0)
    mixed = (part(0) + part(1))[::-1]
    to(dedupe_key=1)(spark.frame(mixed[:50], mixed[50:70], mixed[70:], run="run-2"), 0)
    assert times() == ALL


def test_with_a_key_rows_are_looked_for_since_the_first_task_began(monkeypatch, spark, to, cluster, topic):
    """They may have moved here from a partition that began earlier, if Spark has computed a shuffle again."""
    since = []
    monkeypatch.setattr(
        tasks, "StoredRows", lambda *parts, **more: since.append(parts[2]) or stored_rows.StoredRows(*parts, **more)
    )
    to(dedupe_key=1)(spark.frame(part(0), part(1), dies=(1, 40)), 0)
    assert since == [None, None, cluster.messages(f"Markers-{topic}")[0].store_timestamp]


def test_a_row_without_a_key_is_a_bad_row(spark, to):
    with pytest.raises(RowError, match="row 2 of partition 0: the dedupe key, column 1, is null"):
        to(dedupe_key=1, columns={"value": 0})(spark.frame([(b"one", "k"), (b"two", None)]), 0)


def test_counts_have_what_was_found_too(monkeypatch, spark, to):
    written = to()
    counted = []
    monkeypatch.setattr(written._tally.__class__, "add", lambda self, counts: counted.append(counts))
    written(spark.frame(part(0), dies=(0, 40)), 0)
    assert [each.sent for each in counted] == [ROWS]
    assert counted[0].bytes == sum(len(row[0]) for row in part(0))
    assert counted[0].skipped == 0


def test_a_delayed_message_is_refused(spark, to):
    with pytest.raises(RowError, match=r"row 1 of partition 0.*its message is delayed"):
        to(columns={"value": 0, "delay_level": 1})(spark.frame([(b"one", 3)]), 0)


# --- what the driver refuses ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"delivery": "exactly-once"}, "delivery must be one of at-least-once, commit-marker, effectively-once"),
        ({"delivery": "commit-marker", "failed_sends": "count"}, 'failed_sends="count" gives rows up'),
        ({"dedupe_key": "id"}, "dedupe_key needs unique ids that stay the same when rows are sent again"),
        ({"dedupe_key": "", "provenance": True}, "dedupe_key is ''"),
        ({"dedupe_key": True, "provenance": True}, "dedupe_key is True"),
        ({"marker_topic": "no topic"}, "marker_topic"),
    ],
)
def test_settings_that_cannot_be(settings, text):
    with pytest.raises(ConfigError, match=text):
        sink("Orders", namesrv="127.0.0.1:9876", **settings)


@pytest.mark.parametrize("number", [-1, True, 1.5, "3", 2**63])
def test_a_number_of_a_micro_batch_that_cannot_be(spark, to, times, number):
    """A marker with it would not be read."""
    for delivery in ("at-least-once", "commit-marker"):
        with pytest.raises(ConfigError, match="the batch_id must be a whole number from 0 on"):
            to(delivery, job_id="nightly")(spark.frame(part(0)), number)
    assert not times()


def test_speculation_is_refused(spark, to, times):
    spark.conf["spark.speculation"] = "true"
    with pytest.raises(ConfigError, match=r"set spark\.speculation to false"):
        to()(spark.frame(part(0)), 0)
    assert not times()
    to("commit-marker")(spark.frame(part(0)), 0)


def test_without_the_id_of_a_query_a_job_id_is_needed(spark, to, times):
    for delivery in ("commit-marker", "effectively-once"):
        with pytest.raises(ConfigError, match=f'delivery="{delivery}" needs the id of the query.*give a job_id'):
            to(delivery)(spark.frame(part(0), query=None), 0)
    to(job_id="2026-11-28")(spark.frame(part(0), query=None), 0)
    assert len(times()) == ROWS


def test_foreach_partition_is_refused_on_the_driver(monkeypatch, spark, to):
    monkeypatch.setattr(sys.modules["rocketpy.spark.sink"], "active_context", object)
    with pytest.raises(ConfigError, match=r"use foreachBatch\(sink\) for a stream; for a DataFrame, call sink"):
        pickle.dumps(to())


def test_foreach_partition_is_refused_by_tasks_if_no_driver_does(spark, to):
    with pytest.raises(ConfigError, match="needs to run on the driver at the end"):
        spark.frame(part(0)).foreachPartition(to())


def test_a_second_frame_of_a_micro_batch_is_not_taken_for_the_first(spark, to, times):
    written = to()
    written(spark.frame(part(0)), 0)
    with pytest.raises(ConfigError, match="already: give each further sink a job_id of its own"):
        written(spark.frame(part(1)), 0)
    to(job_id="second")(spark.frame(part(1)), 0)
    assert times() == ALL


def test_an_older_micro_batch_is_refused_and_not_left_out(spark, to):
    to()(spark.frame(part(0)), 5)
    with pytest.raises(ConfigError, match="micro-batch 4 of query-1 comes after micro-batch 5"):
        to()(spark.frame(part(1), run="run-2"), 4)


# --- markers of a whole job -------------------------------------------------------------------------------


@pytest.mark.slow
def test_markers_of_a_micro_batch(spark, to, kinds, cluster, topic):
    to()(spark.frame(part(0), part(1)), 0)
    assert kinds() == ["begin", "begin", "commit"]
    to("commit-marker", job_id="other")(spark.frame(part(0), part(1)), 0)
    assert kinds()[3:] == ["commit"]
    last = json.loads(cluster.messages(f"Markers-{topic}")[-1].body)
    assert last == {"marker": "commit", "query": "other", "topic": topic, "batch": 0}


def test_an_aborted_micro_batch_reads_the_marker_first(spark, to, caplog):
    written = to()
    batch = batches.batch_id(written.config, "query-1", 0)
    batches.new_run(written.config)
    assert not batches.abort(written.config, batch)
    written(spark.frame(part(0)), 0)
    spark.restart()
    assert batches.abort(written.config, batch)
    assert "micro-batch 0 of query-1 is aborted, but has been written" in caplog.text
