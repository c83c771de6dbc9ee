"""The sink as a plain function of rows: no Spark, real brokers."""

from __future__ import annotations

import inspect
import pickle
import sys
from collections import Counter
from typing import NamedTuple

import pytest

from rocketpy.errors import ConfigError, RowError
from rocketpy.spark import provenance_of, sink, task
from rocketpy.sync import Message

sinks = sys.modules["rocketpy.spark.sink"]
"""The module: the function of that name hides it."""


class Order(NamedTuple):
    """What a row of Spark looks like."""

    id: str
    payload: bytes


def test_every_row_becomes_a_message(cluster, namesrv, topic):
    to = sink(topic, namesrv=namesrv, columns={"value": "payload", "keys": "id"})
    assert to(iter([Order(f"k{number}", b"row %d" % number) for number in range(1000)])) is None
    found = {message.body: message.keys for message in cluster.messages(topic)}
    assert found == {b"row %d" % number: (f"k{number}",) for number in range(1000)}
    assert to.counts == (1000, 0, 0, sum(map(len, found)))


@pytest.mark.waits("a sink tries again after a while, in the loop of the portal")
@pytest.mark.slow
def test_a_broker_that_refuses_for_a_while_is_asked_again_more_often_than_by_other_producers(cluster, namesrv, topic):
    to = sink(topic, namesrv=namesrv, columns={"value": "payload"})
    cluster.refuse_sends(10)
    try:
        to([Order("k", b"row")])
    finally:
        cluster.heal()
    assert [message.body for message in cluster.messages(topic)] == [b"row"]
    assert to.counts.sent == 1


def test_a_function_makes_messages_or_passes_rows_over(cluster, namesrv, topic):
    to = sink(namesrv=namesrv, to_message=lambda row: Message(topic, b"%d" % row) if row % 3 else None)
    to(range(10))
    assert sorted(message.body for message in cluster.messages(topic)) == [b"1", b"2", b"4", b"5", b"7", b"8"]
    assert to.counts == (6, 0, 4, 6)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"instance_name": "one"}, "every Python worker of Spark is a client"),
        ({"bad_rows": "ignore"}, "bad_rows must be one of fail, skip"),
        ({"failed_sends": "skip"}, "failed_sends must be one of fail, count"),
        ({"batch_size": 0}, "batch_size must be between 1 and 65535"),
        ({"provenance": "yes"}, "provenance must be True or False"),
        ({"job_id": " "}, "job_id must be printable text"),
        ({"job_id": "x" * 256}, "job_id has 256 characters"),
        ({"sendMsgTimeout": 3000}, "it is called send_timeout here"),
        ({"value_fromat": "json"}, "a sink has no setting value_fromat: did you mean value_format\\?$"),
        ({"colums": {}}, "a sink has no setting colums: did you mean columns\\?$"),
        ({"sent_timeout": 3}, "a sink has no setting sent_timeout: did you mean send_timeout\\?$"),
        ({"qqqqq": 1}, "a sink has no setting qqqqq$"),
        ({"secret_key": "S3cret"}, "secret_key needs"),
        ({"config": None}, "one by one"),
        ({"columns": "payload"}, "columns is of the type str"),
    ],
)
def test_settings_are_checked_on_the_driver(settings, text):
    with pytest.raises(ConfigError, match=text) as caught:
        sink("Orders", namesrv="127.0.0.1:9876", **settings)
    assert "S3cret" not in str(caught.value)


@pytest.mark.parametrize("name", sorted({*inspect.signature(sink).parameters} - {"namesrv", "producer_settings"}))
def test_each_setting_of_a_sink_is_proposed_to_whoever_mistypes_it(name):
    with pytest.raises(ConfigError, match=f"did you mean {name}"):
        sink(namesrv="127.0.0.1:9876", **{f"{name}x": None})


def test_a_sink_without_name_servers_is_refused_on_the_driver(monkeypatch):
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(ConfigError, match="the sink needs namesrv"):
        sink("Orders")


def test_a_sink_is_patient_unless_told_otherwise():
    assert sink("T", namesrv="a:1").config.producer.send_timeout == 30.0
    assert sink("T", namesrv="a:1", send_timeout=2).config.producer.send_timeout == 2.0


def test_the_text_of_a_sink_holds_no_keys_and_no_secrets():
    to = sink("Orders", namesrv="host:9876", access_key="An4ccess", secret_key="S3cret", security_token="T0ken")
    for text in (repr(to), str(to), repr(to.config), f"{to!r}"):
        assert "host:9876" in text
        assert not any(word in text for word in ("An4ccess", "S3cret", "T0ken"))


@pytest.mark.parametrize("row", [Order("k", b"one"), ("k", b"one"), {"value": b"one"}, "one", b"one"])
def test_a_row_in_place_of_rows_is_refused(row):
    with pytest.raises(ConfigError, match=r"this \w+ is a single row: use foreachPartition\(sink\)"):
        sink("T", namesrv="a:1", columns={"value": "*"}, value_format="json")(row)


def test_a_data_frame_in_place_of_rows_is_refused():
    with pytest.raises(ConfigError, match=r"df\.foreachPartition\(sink\)"):
        sink("Orders", namesrv="127.0.0.1:9876")(Frame())


def test_what_is_no_frame_is_refused_in_place_of_a_micro_batch():
    with pytest.raises(ConfigError, match="with a batch_id, a sink writes a DataFrame, not a list"):
        sink("Orders", namesrv="127.0.0.1:9876")([(b"one",)], 3)


# --- which row it is --------------------------------------------------------------------------------------


class SparkTask:
    """What Spark tells a task."""

    def __init__(self, attempt=40):
        self.attempt = attempt

    def taskAttemptId(self):
        return self.attempt

    def stageId(self):
        return 7

    def partitionId(self):
        return 2

    def attemptNumber(self):
        return 0


class Frame:
    """A DataFrame of two partitions."""

    def foreachPartition(self, function):
        for number in range(2):
            pickle.loads(pickle.dumps(function))(iter([(b"%d" % number,), (b"%d" % (number + 1),)]))


@pytest.fixture
def origins(cluster, topic):
    return lambda: sorted(provenance_of(message)[1:5] for message in cluster.messages(topic))


def test_messages_say_which_row_of_which_task_they_are(monkeypatch, namesrv, topic, origins):
    monkeypatch.setattr(task, "_task_context", SparkTask)
    monkeypatch.setattr(sinks, "application_id", lambda: "local-17")
    to = sink(topic, namesrv=namesrv, columns={"value": 0}, provenance=True, bad_rows="skip")
    travelled = pickle.loads(pickle.dumps(to))
    monkeypatch.setattr(sinks, "application_id", lambda: None)  # an executor cannot ask
    travelled([(b"one",), (None,), (b"three",)])
    assert origins() == [("local-17", 7, 2, 1), ("local-17", 7, 2, 3)]


@pytest.mark.slow
def test_a_task_may_write_its_partition_part_by_part(monkeypatch, cluster, namesrv, topic, origins):
    monkeypatch.setattr(sinks, "application_id", lambda: "local-17")
    to = sink(topic, namesrv=namesrv, columns={"value": 0}, provenance=True, bad_rows="skip")
    for attempt in (40, 41):  # the second one begins from its first row
        monkeypatch.setattr(task, "_task_context", lambda number=attempt: SparkTask(number))
        for part in ([(b"one",), (None,)], [], [(b"three",)], [(b"four",), (b"five",)]):
            to(part)
    assert [origin[3] for origin in origins()] == [1, 1, 3, 3, 4, 4, 5, 5]
    bodies = {provenance_of(message): message.body for message in cluster.messages(topic)}
    assert sorted(bodies.values()) == [b"five", b"four", b"one", b"three"]


def test_a_bad_row_of_a_later_part_has_its_number_within_the_partition(namesrv, topic):
    to = sink(topic, namesrv=namesrv, columns={"value": 0, "keys": 1})
    to([(b"one", "k1"), (b"two", "k2")])
    with pytest.raises(RowError, match=r"^row 4 of partition 0 \(keys 'k4'\)"):
        to([(b"three", "k3"), (None, "k4")])
    small = sink(topic, namesrv=namesrv, columns={"value": 0, "keys": 1}, max_message_size=4096, bad_rows="skip")
    small([(b"one", "k1"), (None, "k2")])
    with pytest.raises(RowError, match=r"^row 5 of partition 0 \(keys 'k5'\)"):
        small([(None, "k3"), (b"four", "k4"), (b"x" * 5000, "k5")])


def test_rows_of_a_session_that_follows_another_are_no_repetitions(monkeypatch, cluster, namesrv, topic):
    monkeypatch.setattr(task, "_task_context", SparkTask)  # the stages of each begin at 0
    to = sink(topic, namesrv=namesrv, columns={"value": 0}, provenance=True)
    for application in ("local-17", "local-18"):
        monkeypatch.setattr(sinks, "application_id", lambda named=application: named)
        travelled = pickle.loads(pickle.dumps(to))
        monkeypatch.setattr(sinks, "application_id", lambda: None)  # an executor cannot ask
        travelled([(b"one",)])
    assert {provenance_of(message).source for message in cluster.messages(topic)} == {"local-17", "local-18"}


def test_a_job_id_stands_for_the_application_and_for_the_query(monkeypatch, namesrv, topic, origins):
    monkeypatch.setattr(task, "_task_context", SparkTask)
    to = sink(topic, namesrv=namesrv, columns={"value": 0}, provenance=True, job_id="nightly")
    to([(b"one",)])
    assert origins() == [("nightly", 7, 2, 1)]
    to(Frame(), 5)
    assert origins()[:2] == [("nightly", 5, 2, 1), ("nightly", 5, 2, 1)]


def test_a_micro_batch_that_is_run_again_says_the_same(monkeypatch, cluster, namesrv, topic):
    monkeypatch.setattr(sinks, "query_id", lambda frame: "query-1")
    to = sink(topic, namesrv=namesrv, columns={"value": 0}, provenance=True)
    for application in ("local-17", "local-18"):
        monkeypatch.setattr(sinks, "application_id", lambda named=application: named)
        to(Frame(), 3)
    marks = Counter(provenance_of(message) for message in cluster.messages(topic))
    assert sorted(marks.values()) == [4, 4]
    assert all(mark.source == "query-1" and mark.step == 3 for mark in marks)


def test_without_provenance_nobody_asks_for_ids(monkeypatch, cluster, namesrv, topic):
    monkeypatch.setattr(sinks, "query_id", None)
    monkeypatch.setattr(sinks, "application_id", None)
    sink(topic, namesrv=namesrv, columns={"value": 0})(Frame(), 3)
    assert [provenance_of(message) for message in cluster.messages(topic)] == [None] * 4


def test_provenance_without_an_id_is_refused(monkeypatch, namesrv, topic):
    monkeypatch.setattr(sinks, "query_id", lambda frame: None)
    monkeypatch.setattr(sinks, "application_id", lambda: None)
    to = sink(topic, namesrv=namesrv, columns={"value": 0}, provenance=True)
    with pytest.raises(ConfigError, match="give a job_id"):
        to([(b"one",)])
    with pytest.raises(ConfigError, match="give a job_id"):
        to(Frame(), 3)
