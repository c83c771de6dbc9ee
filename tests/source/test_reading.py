"""Reading ranges of a real broker into record batches: what was sent comes back, whatever lies in between."""

from __future__ import annotations

import json
import threading
import time

import pytest

from rocketpy.errors import ConfigError, FilterRefusedError, RocketMQError
from rocketpy.message import MessageQueue, PropertyName
from rocketpy.spark.source import pulling, reading
from rocketpy.spark.source.batch import BatchRead
from rocketpy.spark.source.clients import clients
from rocketpy.spark.source.loss import DataLossError
from rocketpy.spark.source.offsets import OffsetRange
from rocketpy.spark.source.options import batch_options
from rocketpy.spark.source.shape import COLUMNS
from rocketpy.sync import Message
from rocketpy_broker_sim import BlockingLocalCluster
from tests.source.expiring import delete_expired, expire


def rows_of(pyarrow, options, ranges=None):
    """All rows of a read, as dicts."""
    from rocketpy.spark.source.arrow import BatchMaker, arrow_schema
    from rocketpy.spark.source.values import values_of

    core = BatchRead(options)
    rows = []
    for each in core.plan() if ranges is None else ranges:
        maker = BatchMaker(options.shape, each.queue, arrow_schema(options.shape), values_of(options.shape))
        for batch in reading.read_range(each, options, maker):
            assert batch.num_rows
            rows += batch.to_pylist()
    return rows


def values_of_rows(rows):
    return [row["value"] for row in rows]


def test_what_was_sent_comes_back(pyarrow, cluster, topic, batch, send):
    send(topic, [b"one"], 0, tags="a", keys=["k1", "k2"], properties={"color": "blue"}, sharding_key="s")
    send(topic, [b"two", b"three" * 5000], 1)
    rows = rows_of(pyarrow, batch())
    stored = {(each.queue_id, each.queue_offset): each for each in cluster.messages(topic)}
    assert len(rows) == len(stored) == 3
    for row in rows:
        message = stored[row["queue_id"], row["offset"]]
        assert list(row) == list(COLUMNS)
        assert (row["value"], row["topic"], row["broker_name"]) == (message.body, topic, "broker-a")
        assert (row["keys"], row["tags"], row["sharding_key"]) == (
            list(message.keys),
            message.tags,
            message.sharding_key,
        )
        assert row["timestamp"].timestamp() * 1000 == pytest.approx(message.store_timestamp, abs=0.01)
        assert row["born_timestamp"].timestamp() * 1000 == pytest.approx(message.born_timestamp, abs=0.01)
        assert row["message_id"] == message.message_id
        assert dict(row["properties"]) == dict(message.properties)


def test_properties_of_rocketmq_are_there_if_wanted(pyarrow, cluster, topic, batch, send):
    send(topic, [b"one"], tags="a", properties={"color": "blue"})
    (row,) = rows_of(pyarrow, batch(includeProperties="all"))
    assert dict(row["properties"]).items() >= {"color": "blue", PropertyName.TAGS: "a"}.items()
    assert PropertyName.UNIQUE_KEY in dict(row["properties"])
    (row,) = rows_of(pyarrow, batch(columns="offset, value"))
    assert row == {"offset": 0, "value": b"one"}


@pytest.mark.parametrize("rows_at_once", [1000, 60])
def test_many_messages_in_batches_of_bounded_size(rows_at_once, pyarrow, topic, batch, namesrv, monkeypatch):
    from rocketpy.sync import Message, Producer

    monkeypatch.setattr(reading, "_MOST_ROWS", 500)
    monkeypatch.setattr(reading, "_ROWS_AT_ONCE", rows_at_once)
    with Producer("source-tests-many", namesrv=namesrv) as producer:
        producer.send_many([Message(topic, b"%d" % number) for number in range(5000)])
    rows = rows_of(pyarrow, batch(minPartitions="7"))
    assert all(row["message_id"] for row in rows)
    assert sorted(int(row["value"]) for row in rows) == list(range(5000))
    assert len({(row["queue_id"], row["offset"]) for row in rows}) == 5000


def test_ranges_of_offsets(pyarrow, topic, batch, send):
    send(topic, [b"%d" % number for number in range(10)])
    part = '{"%s": {"broker-a": {"0": %d}}}'
    options = batch(startingOffsets=part % (topic, 3), endingOffsets=part % (topic, 7))
    assert values_of_rows(rows_of(pyarrow, options)) == [b"3", b"4", b"5", b"6"]


def test_tags_are_compared_by_their_text(pyarrow, topic, batch, send):
    # Brokers compare hashes: "Aa" and "BB" have the same one.
    for tag in ("Aa", "BB", "C", None):
        send(topic, [str(tag).encode()], tags=tag)
    assert values_of_rows(rows_of(pyarrow, batch(tags="Aa || C"))) == [b"Aa", b"C"]
    assert rows_of(pyarrow, batch(tags="none")) == []


def test_a_filter_that_matches_little_ends(pyarrow, topic, batch, namesrv):
    from rocketpy.sync import Message, Producer

    with Producer("source-tests-few", namesrv=namesrv) as producer:
        tags = ["rare" if number % 1000 == 999 else "usual" for number in range(3000)]
        producer.send_many([Message(topic, b"%d" % n, tags=tag) for n, tag in enumerate(tags)])
    assert sorted(values_of_rows(rows_of(pyarrow, batch(tags="rare")))) == [b"1999", b"2999", b"999"]


def test_sql_is_checked_before_anything_is_read(pyarrow, topic, batch, send):
    send(topic, [b"1"], properties={"n": "1"})
    with pytest.raises(FilterRefusedError):
        rows_of(pyarrow, batch(sql="n >"))


def test_only_messages_that_an_expression_matches_arrive(pyarrow, topic, batch, send):
    for number in range(20):
        properties = {"color": "red" if number % 2 else "blue", "n": str(number)}
        send(topic, [b"%d" % number], number % 2, properties=properties if number < 19 else {})
    assert values_of_rows(rows_of(pyarrow, batch(sql="color = 'red' AND n > 14"))) == [b"15", b"17"]
    assert sorted(values_of_rows(rows_of(pyarrow, batch(sql="n IS NULL OR n IN ('0', '1')")))) == [b"0", b"1", b"19"]
    assert rows_of(pyarrow, batch(sql="color = 'green'")) == []


def test_a_broker_that_filters_by_no_properties(pyarrow):
    with BlockingLocalCluster(enable_property_filter=False) as cluster:
        cluster.create_topic("Unfiltered")
        cluster.send(Message("Unfiltered", b"2", properties={"n": "2"}))
        given = {"namesrv": cluster.name_server_addresses, "subscribe": "Unfiltered", "sql": "n > 1"}
        with pytest.raises(FilterRefusedError, match="enablePropertyFilter"):
            rows_of(pyarrow, batch_options(given))


def test_compressed_bodies_come_unpacked(pyarrow, topic, batch, namesrv):
    from rocketpy.sync import Message, Producer

    with Producer("source-tests-packed", namesrv=namesrv, compress_body_over=100) as producer:
        producer.send(Message(topic, b"x" * 10_000))
    assert values_of_rows(rows_of(pyarrow, batch())) == [b"x" * 10_000]


def test_bodies_of_an_answer_are_unpacked_one_after_the_other(pyarrow, topic, batch, namesrv, monkeypatch):
    from rocketpy.spark.source.arrow import BatchMaker, arrow_schema
    from rocketpy.spark.source.values import values_of
    from rocketpy.sync import Message, Producer

    monkeypatch.setattr(reading, "_MOST_BYTES", 10_000)
    with Producer("source-tests-packed", namesrv=namesrv, compress_body_over=100) as producer:
        queue = MessageQueue(topic, "broker-a", 0)
        for _ in range(4):
            producer.send(Message(topic, b"x" * 10_000), queue=queue)
    answers, pull_next, most = [], pulling.Pulls._next, []

    def noted(pulls):
        answers.append(pull_next(pulls))
        return answers[-1]

    def read(body, columns, *args, **more):
        found = reading_columns(body, columns, *args, **more)
        most.append(sum(map(len, columns.bodies)))
        return found

    reading_columns = reading.read_columns
    monkeypatch.setattr(pulling.Pulls, "_next", noted)
    monkeypatch.setattr(reading, "read_columns", read)
    options = batch()
    maker = BatchMaker(options.shape, queue, arrow_schema(options.shape), values_of(options.shape))
    batches = list(reading.read_range(OffsetRange(queue, 0, 4), options, maker))
    assert len(answers) == 1
    assert [each.column("offset").to_pylist() for each in batches] == [[0], [1], [2], [3]]
    assert most == [10_000] * 4


@pytest.mark.waits("brokers stamp messages with the time of this machine")
def test_times(pyarrow, topic, batch, send):
    send(topic, [b"early"])
    time.sleep(0.01)
    middle = round(time.time() * 1000)
    time.sleep(0.01)
    send(topic, [b"late"])
    late = batch(startingTimestamp=str(middle), startingOffsetsByTimestampStrategy="latest")
    assert values_of_rows(rows_of(pyarrow, late)) == [b"late"]
    assert values_of_rows(rows_of(pyarrow, batch(endingTimestamp=str(middle)))) == [b"early"]
    with pytest.raises(ConfigError, match=r"no message was stored at that time or later in .*:1; .*Strategy"):
        rows_of(pyarrow, batch(startingTimestamp=str(middle)))


def test_text(pyarrow, topic, batch, send):
    send(topic, ["Größe".encode(), b"\xff\xfe"])
    assert values_of_rows(rows_of(pyarrow, batch(valueFormat="string"))) == ["Größe", "\ufffd\ufffd"]


def test_patterns_leave_out_what_is_no_topic_of_users(pyarrow, cluster, namesrv, topic, send):
    send(topic, [b"1"])
    options = batch_options({"namesrv": namesrv, "subscribePattern": ".*"})
    topics = {each.queue.topic for each in BatchRead(options).plan()}
    assert topic in topics
    assert not any(name.startswith(("%", "broker", "Default", "SELF", "TBW")) or "_REPLY_" in name for name in topics)
    with pytest.raises(ConfigError, match="no topic matches"):
        BatchRead(batch_options({"namesrv": namesrv, "subscribePattern": "nothing-at-all"})).plan()


def test_assigned_queues(pyarrow, namesrv, topic, send):
    send(topic, [b"zero"], 0)
    send(topic, [b"one"], 1)
    given = {"namesrv": namesrv, "assign": json.dumps({topic: {"broker-a": [1]}})}
    assert values_of_rows(rows_of(pyarrow, batch_options(given))) == [b"one"]
    with pytest.raises(ConfigError, match=rf"{topic}@broker-a:7, which does not exist; .*broker-a has 0, 1"):
        BatchRead(batch_options({**given, "assign": json.dumps({topic: {"broker-a": [7]}})})).plan()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("startingOffsets", '{"%s": {"broker-a": {"0": 99}}}', "has offset 99 .*, which ends at 3"),
        ("endingOffsets", '{"%s": {"broker-a": {"0": 99}}}', "has offset 99 .*, which ends at 3"),
        ("startingOffsets", '{"%s": {"broker-z": {"0": 1}}}', "broker-z:0, which is not read; there are"),
        ("startingOffsetsByTimestamp", '{"%s": {"broker-z": {"0": 0}}}', "broker-z:0, which is not read; there are"),
    ],
)
def test_offsets_that_are_not_there(topic, batch, send, name, value, said):
    send(topic, [b"1", b"2", b"3"])
    with pytest.raises(ConfigError, match=said):
        BatchRead(batch(**{name: value % topic})).plan()


def test_an_end_before_the_start(topic, batch, send):
    send(topic, [b"1", b"2", b"3"])
    part = '{"%s": {"broker-a": {"0": %d}}}'
    with pytest.raises(ConfigError, match="from offset 2 to 1, which ends"):
        BatchRead(batch(startingOffsets=part % (topic, 2), endingOffsets=part % (topic, 1))).plan()


def test_messages_that_are_gone(pyarrow, topic, batch, send, caplog):
    """The queue ends before the range does, as after a topic was deleted and made again."""
    send(topic, [b"1", b"2", b"3"])
    queue = MessageQueue(topic, "broker-a", 0)
    with pytest.raises(DataLossError, match=r":0 from offset 3 to 9 are gone: .*failOnDataLoss") as failed:
        rows_of(pyarrow, batch(**{"fetchOffset.numRetries": "1"}), [OffsetRange(queue, 1, 9)])
    assert (failed.value.queue, failed.value.start, failed.value.until) == (queue, 3, 9)
    going_on = batch(failOnDataLoss="false", **{"fetchOffset.numRetries": "1"})
    assert values_of_rows(rows_of(pyarrow, going_on, [OffsetRange(queue, 1, 9)])) == [b"2", b"3"]
    assert "offset 3 to 9 are gone" in caplog.text


def test_a_topic_that_does_not_exist(namesrv):
    options = batch_options(
        {"namesrv": namesrv, "subscribe": "Nowhere", "fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "1"}
    )
    with pytest.raises(RocketMQError, match="Nowhere") as failed:
        BatchRead(options).plan()
    assert failed.value.__notes__ == ["while looking for the queues to read, tried 2 times"]


def test_name_servers_that_are_away():
    options = batch_options(
        {
            "namesrv": "127.0.0.1:1",
            "subscribe": "T",
            "fetchOffset.numRetries": "1",
            "fetchOffset.retryIntervalMs": "1",
            "rocketmq.requestTimeout": "0.5",
        }
    )
    with pytest.raises(RocketMQError, match=r"127\.0\.0\.1:1"):
        BatchRead(options).plan()


def test_a_reader_that_is_left_early_stops_pulling(pyarrow, topic, batch, send, monkeypatch):
    from rocketpy.spark.source.arrow import BatchMaker, arrow_schema
    from rocketpy.spark.source.values import values_of

    send(topic, [b"%d" % number for number in range(200)])
    options = batch(pullBatchSize="1")
    (part,) = BatchRead(options).plan()
    maker = BatchMaker(options.shape, part.queue, arrow_schema(options.shape), values_of(options.shape))
    answers, pull_next = [], pulling.Pulls._next

    def noted(pulls):
        answers.append(pull_next(pulls))
        return answers[-1]

    monkeypatch.setattr(pulling.Pulls, "_next", noted)
    monkeypatch.setattr(reading, "_MOST_ROWS", 5)
    reader = reading.read_range(part, options, maker)
    assert next(reader).num_rows == 5
    reader.close()
    assert len(answers) == 5, "the queue was not read to its end"
    with clients().use(options.client) as client:
        assert not [link for link in client.trio_client.data_links.all() if len(link)], "nothing is under way"


def test_a_broker_that_is_restarted_in_the_middle(pyarrow, batch, topic, cluster, send):
    from rocketpy.spark.source.arrow import BatchMaker, arrow_schema
    from rocketpy.spark.source.values import values_of

    send(topic, [b"%d" % number for number in range(40)])
    options = batch(pullBatchSize="1", **{"fetchOffset.numRetries": "50", "fetchOffset.retryIntervalMs": "100"})
    (part,) = BatchRead(options).plan()
    maker = BatchMaker(options.shape, part.queue, arrow_schema(options.shape), values_of(options.shape))
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patched:
        patched.setattr(reading, "_MOST_ROWS", 5)
        rows = []
        for batch_of_rows in reading.read_range(part, options, maker):
            rows += batch_of_rows.column("value").to_pylist()
            if len(rows) == 5:
                cluster.restart_broker(0)
    assert rows == [b"%d" % number for number in range(40)]


def test_a_broker_that_dies_in_the_middle_is_an_error(pyarrow):
    from rocketpy.spark.source.arrow import BatchMaker, arrow_schema
    from rocketpy.spark.source.values import values_of
    from rocketpy.sync import Message, Producer
    from rocketpy_broker_sim import BlockingLocalCluster

    with BlockingLocalCluster() as cluster, pytest.MonkeyPatch.context() as patched:
        patched.setattr(reading, "_MOST_ROWS", 5)
        cluster.create_topic("Dying", queues=1)
        with Producer("source-tests-dying", namesrv=cluster.name_server_addresses) as producer:
            producer.send_many([Message("Dying", b"%d" % number) for number in range(40)])
        options = batch_options(
            {
                "namesrv": cluster.name_server_addresses,
                "subscribe": "Dying",
                "pullBatchSize": "1",
                "fetchOffset.numRetries": "2",
                "fetchOffset.retryIntervalMs": "10",
            }
        )
        (part,) = BatchRead(options).plan()
        maker = BatchMaker(options.shape, part.queue, arrow_schema(options.shape), values_of(options.shape))
        reader = reading.read_range(part, options, maker)
        assert next(reader).num_rows == 5
        cluster.kill_broker(0)
        with pytest.raises(RocketMQError) as failed:
            list(reader)
    (note,) = failed.value.__notes__
    assert note.startswith("while pulling Dying@broker-a:0 from offset")
    assert note.endswith("tried 3 times")


@pytest.mark.waits("files are deleted by a service of the broker")
def test_data_that_expires_under_the_reader(pyarrow, expiring, send, caplog):
    from rocketpy.sync import Message, Producer

    given = {
        "namesrv": expiring.name_server_addresses,
        "subscribe": "Expiring",
        "fetchOffset.numRetries": "1",
        "fetchOffset.retryIntervalMs": "10",
    }
    with Producer("source-tests-expiring", namesrv=expiring.name_server_addresses) as producer:
        for number in range(100):
            producer.send(Message("Expiring", b"%d" % number * 50, tags="rare" if number % 50 == 49 else "usual"))
    options = batch_options(given)
    ranges = BatchRead(options).plan()
    assert [(each.start, each.until) for each in ranges] == [(0, 100)]
    first = expire(expiring, options)
    for more in ({}, {"tags": "rare"}):
        with pytest.raises(DataLossError, match=rf"from offset 0 to {first} are gone: the oldest"):
            rows_of(pyarrow, batch_options({**given, **more}), ranges)
    rows = rows_of(pyarrow, batch_options({**given, "failOnDataLoss": "false"}), ranges)
    assert [row["offset"] for row in rows] == list(range(first, 100))
    assert f"from offset 0 to {first} are gone" in caplog.text
    early = '{"Expiring": {"broker-a": {"0": 0}}}'
    with pytest.raises(DataLossError, match="from offset 0 to"):
        BatchRead(batch_options({**given, "startingOffsets": early})).plan()


@pytest.fixture
def stale(monkeypatch):
    """A cluster that has deleted the first of a hundred messages, while their queue still begins with them."""
    from rocketpy.sync import Producer
    from rocketpy_broker_sim.store.retention import Retention

    taken, deleted = [], threading.Event()
    take_log_file = Retention.take_log_file

    def take_three(retention):
        file = take_log_file(retention) if len(taken) < 3 else None
        if file is not None:
            taken.append(file)
        return file

    def stay(*_):
        if len(taken) == 3:
            deleted.set()

    monkeypatch.setattr(Retention, "take_log_file", take_three)
    monkeypatch.setattr(Retention, "correct_queue", stay)
    settings = {
        "mapped_file_size_commit_log": 4096,
        "flush_interval_consume_queue": 10,  # only what is flushed is deleted
        "flush_consume_queue_thorough_interval": 10,
        "file_reserved_time": 0,
        "clean_resource_interval": 50,
        "delete_commit_log_files_interval": 1,
    }
    with BlockingLocalCluster(**settings) as cluster:
        cluster.create_topic("Expiring", queues=1)
        with Producer("source-tests-expiring", namesrv=cluster.name_server_addresses) as producer:
            for number in range(100):
                producer.send(Message("Expiring", b"%d" % number * 50, tags="usual" if number else "first"))
        delete_expired(cluster, batch_options({"namesrv": cluster.name_server_addresses, "subscribe": "Expiring"}))
        assert deleted.wait(10)
        yield cluster


def test_data_that_expires_before_its_queue_says_so(pyarrow, stale, caplog):
    """A broker deletes files of messages first, and moves the start of each queue later."""
    given = {"namesrv": stale.name_server_addresses, "subscribe": "Expiring"}
    options = batch_options(given)
    whole = OffsetRange(MessageQueue("Expiring", "broker-a", 0), 0, 100)
    assert BatchRead(options).plan() == [whole]
    rows = rows_of(pyarrow, batch_options({**given, "failOnDataLoss": "false"}), [whole])
    first = rows[0]["offset"]
    assert [row["offset"] for row in rows] == list(range(first, 100))
    assert f"from offset 0 to {first} are gone: the oldest message has offset {first}" in caplog.text
    with pytest.raises(DataLossError, match=rf"from offset 0 to {first} are gone: the oldest"):
        rows_of(pyarrow, options, [whole])
    with pytest.raises(DataLossError, match=r"from offset 0 to 9 are gone: the broker has deleted them"):
        rows_of(pyarrow, batch_options({**given, "tags": "first"}), [OffsetRange(whole.queue, 0, 9)])
    assert rows_of(pyarrow, options, [OffsetRange(whole.queue, 99, 100)]) == rows[-1:]
