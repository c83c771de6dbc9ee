"""Writes that are run again, with the option delivery: what tasks send, and what the driver marks."""

from __future__ import annotations

import json
import pickle
from collections import Counter

import pytest

from rocketpy.errors import ConfigError, RowError
from rocketpy.spark import task
from rocketpy.spark.delivery import marker_log, tasks

ROWS = 40
SMALL = {"batchSize": "5", "rocketmq.backPressureForAsyncSendNum": "10"}


class Context:
    """The task of Spark that a test pretends to run in."""

    def __init__(self, partition, batch, attempt):
        self._properties = {"sql.streaming.queryId": "41c4e3b5", "streaming.sql.batchId": batch}
        self._partition, self._attempt = partition, attempt

    def getLocalProperty(self, name):
        return self._properties[name]

    def stageId(self):
        return 7

    def partitionId(self):
        return self._partition

    def attemptNumber(self):
        return self._attempt

    def taskAttemptId(self):
        return 1


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """What is sent here is stored before the next attempt begins; nothing is known from an earlier test."""
    monkeypatch.setattr(tasks, "GRACE", 0.0)
    yield
    marker_log._logs.clear()


@pytest.fixture
def run(monkeypatch, write, namesrv, topic):
    """Runs a write as Spark does: a writer for the tasks, and another one for the end of a micro-batch."""

    def run(*, batch=None, dies=None, dies_at_end=False, attempts=2, parts=2, reverse=False, **options):
        streamed = batch is not None
        options = {"namesrv": namesrv, "topic": topic, "markerTopic": f"Markers-{topic}", **SMALL, **options}
        kinds = {"value": "binary", "id": "string"}
        made = write(kinds, streamed=streamed, **options).with_markers()
        pickled = pickle.dumps(made)
        reports = []
        for partition in range(parts):
            rows = [(b"%d-%d" % (partition, number), f"{partition}-{number}") for number in range(ROWS)]
            for attempt in range(attempts):
                context = Context(partition, str(batch), attempt)
                monkeypatch.setattr(task, "_task_context", lambda found=context: found)
                dying = dies if attempt == 0 and partition == parts - 1 else None
                copy = pickle.loads(pickled)
                try:
                    given = list(reversed(rows)) if reverse else rows
                    reports.append(copy.write(until(given, dying, copy), columns=copy.selection.columns))
                    break
                except EOFError:
                    if attempt + 1 == attempts:
                        raise
        monkeypatch.setattr(task, "_task_context", lambda: None)
        if dies_at_end:
            raise EOFError
        end = write(kinds, streamed=True, **options) if streamed else made
        end.commit(pickle.loads(pickle.dumps(reports)), batch)
        return reports

    def until(rows, dying, copy):
        for number, row in enumerate(rows):
            if number == dying:
                raise EOFError
            yield tuple(row[place] for place in copy.selection.places)

    return run


@pytest.fixture
def times(cluster, topic):
    return lambda: Counter(message.body for message in cluster.messages(topic))


@pytest.fixture
def markers(cluster, topic):
    return lambda: [json.loads(message.body) for message in cluster.messages(f"Markers-{topic}")]


ALL = {b"%d-%d" % (partition, number): 1 for partition in range(2) for number in range(ROWS)}
STREAM, JOB = {"batch": 3}, {"jobId": "nightly"}


@pytest.mark.parametrize("how", [STREAM, JOB], ids=["stream", "batch"])
def test_a_task_that_dies_half_way_sends_the_rest(run, times, how):
    run(dies=30, delivery="effectively-once", **how)
    assert times() == ALL


@pytest.mark.parametrize("how", [STREAM, JOB], ids=["stream", "batch"])
def test_a_write_without_its_end_is_completed_by_the_next(run, times, markers, how):
    with pytest.raises(EOFError):
        run(dies_at_end=True, delivery="effectively-once", **how)
    marker_log._logs.clear()
    reports = run(delivery="effectively-once", **how)
    assert times() == ALL
    assert [report.counts.sent for report in reports] == [ROWS, ROWS]
    assert [each["marker"] for each in markers()] == ["begin"] * 4 + ["commit"]
    assert markers()[-1]["rows"] == {"0": ROWS, "1": ROWS}


@pytest.mark.parametrize("delivery", ["commit-marker", "effectively-once"])
@pytest.mark.parametrize("how", [STREAM, JOB], ids=["stream", "batch"])
def test_a_write_that_is_complete_is_not_written_again(run, times, markers, how, delivery, caplog):
    run(delivery=delivery, **how)
    marker_log._logs.clear()
    reports = run(delivery=delivery, **how)
    assert times() == ALL
    assert all(report.is_repeated for report in reports)
    assert [each["marker"] for each in markers()].count("commit") == 1
    assert "has been written already, and is not sent again" in caplog.text


def test_an_older_micro_batch_fails(run):
    run(delivery="commit-marker", batch=4)
    with pytest.raises(ConfigError, match="micro-batch 3 of 41c4e3b5 comes after micro-batch 4"):
        run(delivery="commit-marker", batch=3)


def test_with_a_key_the_order_does_not_matter(run, times, cluster, topic):
    once = {"delivery": "effectively-once", **STREAM}
    for options in ({"dedupeKey": "id"}, {"jobId": "without-key"}):
        with pytest.raises(EOFError):
            run(dies=30, attempts=1, **once, **options)
    run(reverse=True, **once, dedupeKey="id")
    with pytest.raises(RowError, match="an earlier attempt has stored another value"):
        run(reverse=True, **once, jobId="without-key")
    mine = Counter(each.body for each in cluster.messages(topic) if each.properties["SPARK_QID"] == "41c4e3b5")
    assert mine == ALL


def test_an_aborted_write_reads_the_markers(run, write, namesrv, topic, caplog):
    options = {"namesrv": namesrv, "topic": topic, "markerTopic": f"Markers-{topic}", "delivery": "commit-marker"}
    reports = run(delivery="commit-marker", **STREAM)
    aborted = write({"value": "binary"}, streamed=True, **options)
    aborted.abort([*reports, None], 3)
    assert "micro-batch 3 of 41c4e3b5 is aborted, but has been written: it is not sent again" in caplog.text
    caplog.clear()
    aborted.abort([*reports, None], 4)
    aborted.abort([None], 4)
    assert caplog.text.count("has failed or was stopped") == 2


def test_a_batch_write_needs_a_job_id(write):
    with pytest.raises(ConfigError, match="delivery effectively-once needs jobId in a batch write"):
        write(delivery="effectively-once")
    with pytest.raises(ConfigError, match="delivery must be at-least-once, commit-marker or effectively-once"):
        write(delivery="exactly-once")


@pytest.mark.parametrize(
    ("kinds", "text"),
    [
        ({"value": "binary"}, "there is no column 'id' for the dedupeKey; the columns are value"),
        (
            {"value": "binary", "id": "binary"},
            "the column 'id' has the type binary, and the dedupeKey must be a string",
        ),
    ],
)
def test_the_column_of_a_key_is_checked(write, kinds, text):
    with pytest.raises(ConfigError, match=text):
        write(kinds, provenance="true", dedupeKey="id")
