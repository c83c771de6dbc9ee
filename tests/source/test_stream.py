"""What a stream answers to Spark: starts, ends and ranges of micro-batches, over a crash in the first one too."""

from __future__ import annotations

import json
import logging
import pickle
import threading

import pytest

from rocketpy.client.api import offset as offset_api
from rocketpy.errors import RocketMQError
from rocketpy.message import MessageQueue
from rocketpy.spark.source.clients import clients
from rocketpy.spark.source.loss import DataLossError
from rocketpy.spark.source.offsets import OffsetRange
from rocketpy.spark.source.options import stream_options
from rocketpy.spark.source.pulling import pulled
from rocketpy.spark.source.stream import BEGINS, StreamRead
from rocketpy.sync import Message, Producer, PullConsumer
from rocketpy_broker_sim import BlockingLocalCluster
from tests.source.deleting import delete_topic
from tests.source.expiring import expire


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def opened(stream, clock):
    """Makes the stream of a query, as each start of its driver does."""
    return lambda **options: StreamRead(stream(**options), clock=clock, wait=clock.wait)


def step(read, start, **limits):
    """One micro-batch, as Spark goes through it: its end, and its ranges."""
    end = json.loads(json.dumps(read.latest(start, **limits)))
    return end, read.plan(start, end)


def queue(topic, number=0):
    return MessageQueue(topic, "broker-a", number)


def test_batches_follow_each_other(opened, topic, send):
    send(topic, [b"before"])
    read = opened(startingOffsets="earliest")
    start = read.initial()
    assert start == read.initial()
    assert start[topic] == {"broker-a": {"0": 0, "1": 0}}
    end, ranges = step(read, start)
    assert ranges == [OffsetRange(queue(topic), 0, 1)]
    send(topic, [b"1", b"2"], 1)
    following, ranges = step(read, end)
    assert ranges == [OffsetRange(queue(topic, 1), 0, 2)]
    assert following == {topic: {"broker-a": {"0": 1, "1": 2}}}


def test_nothing_new_is_the_same_offset_and_waits(opened, topic, send, clock):
    send(topic, [b"before"])
    read = opened()
    start, began = read.initial(), clock.now
    assert all(read.latest(start) == start for _ in range(5))
    assert clock.now - began == pytest.approx(0.4)
    send(topic, [b"1"])
    end = read.latest(start)
    assert end[topic] == {"broker-a": {"0": 2, "1": 0}}
    # The note of the first end does not make the next one another one, nor are its messages read again.
    assert read.latest(end) == end
    assert read.plan(end, end) == []


def test_the_start_survives_a_crash_in_the_first_batch(opened, topic, send):
    send(topic, [b"before"])
    first = opened(startingOffsets="latest")
    start = first.initial()
    send(topic, [b"1", b"2"])
    end = json.loads(json.dumps(first.latest(start)))  # which Spark writes into the checkpoint; then the driver dies
    assert end[BEGINS] == {topic: {"broker-a": {"0": 1, "1": 0}}}
    send(topic, [b"3"])
    second = opened(startingOffsets="latest")
    asked_again = second.initial()
    assert asked_again[topic]["broker-a"]["0"] == 4
    assert second.plan(asked_again, end) == [OffsetRange(queue(topic), 1, 3)]
    _, ranges = step(second, end)
    assert ranges == [OffsetRange(queue(topic), 3, 4)]


def test_a_first_batch_without_messages_says_where_it_started_too(opened, topic, send):
    first = opened()
    end = first.latest(first.initial())
    send(topic, [b"1"])
    second = opened()
    assert second.plan(second.initial(), end) == []
    assert step(second, end)[1] == [OffsetRange(queue(topic), 0, 1)]


def test_limits(opened, topic, send):
    send(topic, [b"%d" % number for number in range(90)], 0)
    send(topic, [b"%d" % number for number in range(10)], 1)
    read = opened(startingOffsets="earliest")
    start = read.initial()
    sizes = []
    for _ in range(4):
        start, ranges = step(read, start, most=30)
        sizes.append({each.queue.queue_id: each.size for each in ranges})
    assert [sum(each.values()) for each in sizes] == [30, 30, 30, 10]
    assert 2 <= sizes[0][1] <= 4  # a tenth of what there is


def test_spark_before_4_2_says_no_start(opened, topic, send):
    read = opened(startingOffsets="earliest")
    start = read.initial()
    send(topic, [b"1"])
    end = read.latest()
    read.plan(start, end)
    assert read.latest() == end
    send(topic, [b"2"])
    assert read.latest()[topic]["broker-a"]["0"] == 2


def test_the_first_batch_before_4_2_has_no_limit(opened, topic, send, caplog):
    send(topic, [b"%d" % number for number in range(10)])
    read = opened(startingOffsets="earliest")
    end = read.latest(most=4)
    assert read.plan(read.initial(), end) == [OffsetRange(queue(topic), 0, 10)]
    assert "the first micro-batch has no limit, although maxOffsetsPerTrigger is 4" in caplog.text
    send(topic, [b"%d" % number for number in range(10)])
    assert read.latest(most=4)[topic]["broker-a"]["0"] == 14
    # Once again from the checkpoint, which Spark shows as an empty micro-batch: there may be no other.
    second = opened(startingOffsets="earliest")
    assert second.plan(end, end) == []
    assert second.plan(end, second.latest(most=4)) == [OffsetRange(queue(topic), 10, 20)]


@pytest.mark.parametrize("where", ["earliest", "latest"])
def test_spark_before_4_2_that_asks_for_an_end_before_it_shows_its_checkpoint(opened, topic, send, where):
    send(topic, [b"%d" % number for number in range(6)])
    first = opened(startingOffsets="earliest")
    checkpoint = json.loads(json.dumps(first.latest(first.initial())))
    send(topic, [b"6", b"7"])
    send(topic, [b"0"], 1)
    second = opened(startingOffsets=where)
    end = json.loads(json.dumps(second.latest(most=1)))
    assert second.plan(checkpoint, checkpoint) == []
    expected = [OffsetRange(queue(topic), 6, 8), OffsetRange(queue(topic, 1), 0, 1)]
    assert second.plan(checkpoint, end) == expected
    third = opened(startingOffsets=where)  # the driver dies in this micro-batch, which is planned again
    assert third.plan(end, end) == []
    assert third.plan(checkpoint, end) == expected
    send(topic, [b"8"])
    assert third.plan(end, third.latest(most=1)) == [OffsetRange(queue(topic), 8, 9)]


def test_spark_before_4_2_that_asks_too_early_where_there_is_a_new_queue(stream, cluster, topic, send, clock):
    send(topic, [b"0"])
    first = StreamRead(stream(startingOffsets="earliest"), clock=clock, wait=clock.wait)
    checkpoint = json.loads(json.dumps(first.latest(first.initial())))
    cluster.create_topic(topic, queues=3)
    send(topic, [b"1"])
    send(topic, [b"new"], 2)
    second = StreamRead(stream(), clock=clock, wait=clock.wait)
    end = json.loads(json.dumps(second.latest()))
    assert second.plan(checkpoint, end) == [OffsetRange(queue(topic), 1, 2), OffsetRange(queue(topic, 2), 0, 1)]


def test_spark_before_4_2_that_asks_too_early_where_only_a_new_queue_has_messages(stream, cluster, topic, send, clock):
    send(topic, [b"0"])
    first = StreamRead(stream(startingOffsets="earliest"), clock=clock, wait=clock.wait)
    checkpoint = json.loads(json.dumps(first.latest(first.initial())))
    cluster.create_topic(topic, queues=3)
    send(topic, [b"new"], 2)
    second = StreamRead(stream(), clock=clock, wait=clock.wait)
    end = json.loads(json.dumps(second.latest()))
    assert second.plan(checkpoint, end) == [OffsetRange(queue(topic, 2), 0, 1)]


def test_the_start_before_4_2_survives_a_crash_in_the_first_batch(opened, topic, send):
    send(topic, [b"before"])
    first = opened()
    assert first.plan(first.initial(), first.latest()) == []
    send(topic, [b"1", b"2"])
    end = json.loads(json.dumps(first.latest()))
    send(topic, [b"3"])
    second = opened()
    assert second.plan(end, end) == []
    assert second.plan(second.initial(), end) == [OffsetRange(queue(topic), 1, 3)]
    assert second.plan(end, second.latest()) == [OffsetRange(queue(topic), 3, 4)]


def test_a_batch_waits_for_enough_or_for_long_enough(opened, topic, send, clock):
    read = opened(startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="60s")
    send(topic, [b"1"])
    start = read.latest(read.initial())  # the first one does not wait
    assert start[topic]["broker-a"]["0"] == 1
    send(topic, [b"2"])
    assert read.latest(start) == start
    clock.now += 61
    late = read.latest(start)
    assert late[topic]["broker-a"]["0"] == 2
    send(topic, [b"%d" % number for number in range(5)])
    clock.now += 1
    assert read.latest(late)[topic]["broker-a"]["0"] == 7


def test_available_now_reads_to_where_queues_end_now(opened, topic, send):
    read = opened(startingOffsets="earliest", minOffsetsPerTrigger="500")
    start = read.initial()
    send(topic, [b"%d" % number for number in range(6)])
    read.prepare_available_now()
    send(topic, [b"later"])
    end, _ = step(read, start, most=4)
    last, ranges = step(read, end, most=4)
    assert ranges == [OffsetRange(queue(topic), 4, 6)]
    assert read.latest(last, most=4) == last


def test_new_queues_are_picked_up_from_their_first_message(stream, cluster, topic, send, clock):
    read = StreamRead(stream(**{"rocketmq.pollNameServerInterval": "5"}), clock=clock, wait=clock.wait)
    send(topic, [b"before"])
    start = read.initial()
    cluster.create_topic(topic, queues=3)
    send(topic, [b"new"], 2)
    assert read.latest(start) == start
    clock.now += 6
    end, ranges = step(read, start)
    assert ranges == [OffsetRange(queue(topic, 2), 0, 1)]
    assert end[BEGINS][topic]["broker-a"]["2"] == 0
    # Another driver plans the same again, whatever has expired meanwhile.
    again = StreamRead(stream(), clock=clock, wait=clock.wait)
    assert again.plan(start, end) == ranges


def test_a_new_broker_is_picked_up_from_its_first_message(clock):
    with BlockingLocalCluster(brokers=2) as cluster:
        cluster.stop_broker(1)
        cluster.create_topic("Growing", queues=1)
        given = {
            "namesrv": cluster.name_server_addresses,
            "subscribe": "Growing",
            "rocketmq.pollNameServerInterval": "5",
        }
        read = StreamRead(stream_options(given), clock=clock, wait=clock.wait)
        start = read.initial()
        assert start["Growing"] == {"broker-a": {"0": 0}}
        cluster.start_broker(1)
        cluster.create_topic("Growing", queues=1)
        new = MessageQueue("Growing", "broker-b", 0)
        with Producer("stream-tests-growing", namesrv=cluster.name_server_addresses) as producer:
            for body in (b"1", b"2"):
                producer.send(Message("Growing", body), queue=new)
        clock.now += 6
        _, ranges = step(read, start)
        assert ranges == [OffsetRange(new, 0, 2)]


def test_offsets_are_committed_for_tools(opened, namesrv, topic, send):
    send(topic, [b"1", b"2"])
    group = f"lag-{topic}"
    read = opened(startingOffsets="earliest", consumerGroup=group)
    end, (wanted,) = step(read, read.initial())
    read.commit(end)  # the broker does not know the group yet
    with clients().use(read.options.client) as client, pulled(client.trio_client, wanted, read.options) as answers:
        assert all(answers)
    read.commit(end)
    with PullConsumer(group, namesrv=namesrv) as consumer:
        assert consumer.fetch_consume_offset(queue(topic)) == 2
        assert consumer.fetch_consume_offset(queue(topic, 1)) in (0, None)


def test_a_commit_that_fails_is_logged(clock, caplog):
    given = {"namesrv": "127.0.0.1:1", "subscribe": "T", "consumerGroup": "g", "rocketmq.requestTimeout": "0.2"}
    read = StreamRead(stream_options(given), clock=clock, wait=clock.wait)
    read.commit({"T": {"broker-a": {"0": 5}}})
    assert [record.levelno for record in caplog.records if "not committed" in record.message] == [logging.WARNING]


def test_offsets_of_a_broker_that_is_gone_do_not_keep_the_others_from_being_committed(
    opened, namesrv, topic, send, caplog, monkeypatch
):
    send(topic, [b"1", b"2"])
    group = f"lag-{topic}"
    read = opened(startingOffsets="earliest", consumerGroup=group)
    _, (wanted,) = step(read, read.initial())
    with clients().use(read.options.client) as client, pulled(client.trio_client, wanted, read.options) as answers:
        assert all(answers)  # from here on the broker knows the group
    told = []
    real = offset_api.update_consumer_offset

    async def noted(pool, address, group, queue, offset, **more):
        told.append(queue)
        return await real(pool, address, group, queue, offset, **more)

    monkeypatch.setattr(offset_api, "update_consumer_offset", noted)
    end = {topic: {"broker-a": {"0": 2, "1": 0}, "broker-gone": {"0": 7, "1": 7}}}
    for _ in range(2):
        read.commit(end)
    assert sorted(told) == [queue(topic), queue(topic, 1)], "each once"
    gone = f"the offsets of {group} in 2 queues at broker-gone are not committed: "
    assert [record.message[: len(gone)] for record in caplog.records if "not committed" in record.message] == [gone] * 2
    with PullConsumer(group, namesrv=namesrv) as consumer:
        assert consumer.fetch_consume_offset(queue(topic)) == 2


def test_a_commit_that_is_refused_is_logged_by_broker(opened, topic, monkeypatch, caplog):
    async def refuse(*_, **__):
        raise RocketMQError("no")

    monkeypatch.setattr(offset_api, "update_consumer_offset", refuse)
    opened(consumerGroup="g").commit({topic: {"broker-a": {"0": 2, "1": 0}}})
    assert "the offsets of g in 2 queues at broker-a are not committed: no" in caplog.text


def test_commits_that_a_broker_ignores_are_logged_and_made_again(opened, topic, monkeypatch, caplog):
    """So do brokers answer between a reset of the group and the next pull."""
    told, taken = [], False

    async def noted(_pool, _address, _group, queue, offset, **_):
        told.append((queue, offset))
        return taken

    monkeypatch.setattr(offset_api, "update_consumer_offset", noted)
    read, end = opened(consumerGroup="g"), {topic: {"broker-a": {"0": 2}}}
    for _ in range(2):
        read.commit(end)
    said = f"the offsets of g in 1 queue are not committed: the group was reset, and nothing was pulled from {topic}"
    assert [record.message[: len(said)] for record in caplog.records if "not committed" in record.message] == [said], (
        "told once"
    )
    taken = True
    for _ in range(2):
        read.commit(end)
    assert told == [(queue(topic), 2)] * 3


def test_a_topic_that_was_deleted_and_made_again(opened, topic, send):
    send(topic, [b"1"])
    start = {topic: {"broker-a": {"0": 70, "1": 0}}}
    read = opened()
    end = read.latest(start)
    with pytest.raises(DataLossError, match="created again"):
        read.plan(start, end)
    going_on = opened(failOnDataLoss="false")
    assert going_on.plan(start, going_on.latest(start)) == [OffsetRange(queue(topic), 0, 1)]


def test_a_topic_that_is_deleted_and_made_again_while_it_is_read(opened, cluster, topic, send):
    send(topic, [b"1", b"2"])
    read = opened(startingOffsets="earliest", **{"rocketmq.pollNameServerInterval": "1"})
    end, _ = step(read, read.initial())
    delete_topic(cluster, topic)
    cluster.create_topic(topic, queues=2)
    send(topic, [b"new"])
    with pytest.raises(DataLossError, match=r"from offset 1 to 2 are gone: .* deleted and created again"):
        step(read, end)


@pytest.mark.waits("files are deleted by a service of the broker")
def test_messages_that_expire_between_micro_batches(expiring, clock, caplog):
    given = {"namesrv": expiring.name_server_addresses, "subscribe": "Expiring", "fetchOffset.retryIntervalMs": "20"}
    with Producer("stream-tests-expiring", namesrv=expiring.name_server_addresses) as producer:
        for number in range(100):
            producer.send(Message("Expiring", b"%d" % number * 50))
    read = StreamRead(stream_options({**given, "startingOffsets": "earliest"}), clock=clock, wait=clock.wait)
    begun = read.latest(read.initial(), most=5)
    first = expire(expiring, read.options)
    assert first > 5
    end = read.latest(begun)
    with pytest.raises(DataLossError, match=f"from offset 5 to {first} are gone: the oldest message has"):
        read.plan(begun, end)
    going_on = StreamRead(stream_options({**given, "failOnDataLoss": "false"}), clock=clock, wait=clock.wait)
    assert going_on.plan(begun, end) == [OffsetRange(queue("Expiring"), first, 100)]
    assert f"from offset 5 to {first} are gone" in caplog.text
    early = {**given, "startingOffsets": '{"Expiring": {"broker-a": {"0": 3}}}'}
    with pytest.raises(DataLossError, match=f"from offset 3 to {first} are gone"):
        StreamRead(stream_options(early), clock=clock, wait=clock.wait).initial()
    early["failOnDataLoss"] = "false"
    assert StreamRead(stream_options(early)).initial()["Expiring"] == {"broker-a": {"0": first}}


def test_queues_that_are_away_keep_their_offsets(opened, topic, send, caplog):
    send(topic, [b"1"])
    start = {topic: {"broker-a": {"0": 0, "1": 0}, "broker-z": {"0": 9}}}
    end = opened().latest(start)
    assert end == {topic: {"broker-a": {"0": 1, "1": 0}, "broker-z": {"0": 9}}}
    assert f"{topic}@broker-z:0" in caplog.text


def test_the_ends_that_spark_shows(opened, topic, send):
    read = opened()
    assert read.report() is None
    send(topic, [b"1"])
    read.latest(read.initial(), most=1)
    assert read.report() == {topic: {"broker-a": {"0": 1, "1": 0}}}


def test_it_pickles(opened, topic):
    from rocketpy.spark.source.options import SourceOptions

    options: SourceOptions = opened().options
    read = StreamRead(options)
    read.initial()
    assert pickle.loads(pickle.dumps(read)).options == options


def test_a_name_server_that_is_away_in_the_middle(clock):
    with BlockingLocalCluster() as cluster:
        cluster.create_topic("Middle", queues=1)
        given = {
            "namesrv": cluster.name_server_addresses,
            "subscribe": "Middle",
            "startingOffsets": "earliest",
            "fetchOffset.numRetries": "0",
            "rocketmq.requestTimeout": "0.5",
            "rocketmq.pollNameServerInterval": "1",
        }
        read = StreamRead(stream_options(given), clock=clock, wait=clock.wait)
        start = read.initial()
        cluster.stop_name_server(0)
        clock.now += 2
        assert read.latest(start) == start  # with the queues that it knows
        cluster.stop_broker(0)
        clock.now += 2
        with pytest.raises(RocketMQError) as failed:
            read.latest(start)
        assert failed.value.__notes__ == ["while asking where queues end"]
        other = StreamRead(stream_options(given), clock=clock, wait=clock.wait)
        with pytest.raises(RocketMQError):
            other.initial()


def test_name_servers_that_come_back_in_time(cluster, stream, topic, send):
    """They are away at the start, and back before the last try."""
    send(topic, [b"1"])
    patient = {"fetchOffset.numRetries": "200", "fetchOffset.retryIntervalMs": "20", "rocketmq.requestTimeout": "0.5"}
    read = StreamRead(stream(startingOffsets="earliest", **patient))
    cluster.stop_name_server(0)
    back = threading.Timer(0.2, cluster.start_name_server, [0])
    back.start()
    try:
        assert read.initial()[topic] == {"broker-a": {"0": 0, "1": 0}}
    finally:
        back.join()
