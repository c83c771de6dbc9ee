"""Ranges of a real broker as messages: what tasks of an RDD read, and what its driver plans and commits."""

from __future__ import annotations

import pickle
import time
from datetime import UTC, datetime, timedelta

import pytest

from rocketpy.client.api import offset as offset_api
from rocketpy.errors import ConfigError, MessageDecodeError, RocketMQError
from rocketpy.message import MessageQueue
from rocketpy.spark.source.brokers import Brokers
from rocketpy.spark.source.clients import clients
from rocketpy.spark.source.loss import DataLossError
from rocketpy.spark.source.messages import MessageRead, TaskRead, read_messages
from rocketpy.spark.source.offsets import OffsetRange
from rocketpy.sync import Message, Producer, PullConsumer
from tests.source.deleting import delete_topic
from tests.source.expiring import expire
from tests.source.test_keywords import of


@pytest.fixture
def read(namesrv, topic):
    """Plans a read of the topic."""

    def planned(topics=None, **given):
        return MessageRead.planned(of(topics or topic, **{"namesrv": namesrv, "retry_interval": 0.02, **given}))

    return planned


def messages_of(read):
    """What the tasks of a read give, after the journey to them."""
    task = pickle.loads(pickle.dumps(TaskRead(read.options)))
    return [message for part in read.parts() for message in task(iter([pickle.loads(pickle.dumps(part))]))]


def bodies(read):
    return [message.body for message in messages_of(read)]


def queue(topic, number=0):
    return MessageQueue(topic, "broker-a", number)


def test_messages_are_what_the_broker_has_and_pickle(cluster, topic, read, send):
    send(topic, [b"one"], 0, tags="a", keys=["k1", "k2"], properties={"color": "blue"}, sharding_key="s")
    send(topic, [b"two", b"three" * 5000], 1)
    stored = {(each.queue_id, each.queue_offset): each for each in cluster.messages(topic)}
    found = [pickle.loads(pickle.dumps(each)) for each in messages_of(read())]
    assert len(found) == len(stored) == 3
    for each in found:
        message = stored[each.queue_id, each.queue_offset]
        assert (each.value, each.body, each.queue) == (message.body, message.body, queue(topic, each.queue_id))
        assert (each.keys, each.tags, each.sharding_key) == (message.keys, message.tags, message.sharding_key)
        assert (each.store_timestamp, each.born_timestamp) == (message.store_timestamp, message.born_timestamp)
        assert (each.message_id, dict(each.properties)) == (message.message_id, dict(message.properties))


def test_values_are_decoded_by_their_content_type(topic, read, namesrv):
    with Producer("source-tests-values", namesrv=namesrv, serializer="json") as producer:
        producer.send(Message(topic, value={"a": [1, 2]}))
    (message,) = messages_of(read())
    assert pickle.loads(pickle.dumps(message)).value == {"a": [1, 2]}


def test_ranges_are_cut_and_read_once(topic, read, namesrv):
    with Producer("source-tests-cut", namesrv=namesrv) as producer:
        producer.send_many([Message(topic, b"%d" % number) for number in range(3000)])
    assert len(read(min_partitions=7).parts()) == 7
    whole = read(max_records_per_partition=800)
    assert max(part.size for part in whole.parts()) <= 800
    assert sorted(int(body) for body in bodies(whole)) == list(range(3000))
    assert [each.queue for each in whole.ranges] == [queue(topic, 0), queue(topic, 1)]
    assert sum(each.size for each in whole.ranges) == 3000


def test_starts_and_ends(topic, read, send):
    send(topic, [b"%d" % number for number in range(10)])
    assert bodies(read(start={queue(topic): 3}, end={queue(topic): 7})) == [b"3", b"4", b"5", b"6"]
    assert bodies(read([OffsetRange(queue(topic), 8, 9)])) == [b"8"]
    assert read(start="latest").parts() == []
    assert read(start="latest").ranges == (OffsetRange(queue(topic), 10, 10), OffsetRange(queue(topic, 1), 0, 0))
    ranges = read(end={queue(topic): 4}).ranges
    assert read(ranges).ranges == ranges


@pytest.mark.waits("brokers stamp messages with the time of this machine")
def test_times(topic, read, send):
    send(topic, [b"early"])
    time.sleep(0.01)
    middle = datetime.now(UTC)
    time.sleep(0.01)
    send(topic, [b"late"])
    assert bodies(read(start=middle)) == [b"late"]
    assert bodies(read(end=middle)) == [b"early"]
    assert bodies(read(start=middle + timedelta(days=1))) == []


def test_tags_are_compared_by_their_text(topic, read, send):
    # Brokers compare hashes: "Aa" and "BB" have the same one.
    for tag in ("Aa", "BB", "C", None):
        send(topic, [str(tag).encode()], tags=tag)
    assert bodies(read(tags="Aa || C")) == [b"Aa", b"C"]


@pytest.mark.parametrize(
    ("chosen", "given", "said"),
    [
        (None, lambda t: {"start": {queue(t): 99}}, "start has offset 99 for .*, which ends at 3"),
        (None, lambda t: {"end": {queue(t): 99}}, "end has offset 99 for .*, which ends at 3"),
        (None, lambda t: {"start": {queue(t): 2}, "end": {queue(t): 1}}, "2 to 1, which ends before it starts"),
        (None, lambda t: {"start": {queue(t, 9): 1}}, "start names .*:9, which is not read"),
        (lambda t: [queue(t, 9)], None, "topics names .*:9, which does not exist; .*broker-a has 0, 1"),
        (lambda t: [OffsetRange(queue(t), 2, 99)], None, "topics has offset 99 .* ends at 3"),
        (lambda t: [OffsetRange(queue(t, 9), 0, 1)], None, "topics names .*:9, which does not"),
    ],
)
def test_what_does_not_fit_the_queues(topic, read, send, chosen, given, said):
    send(topic, [b"1", b"2", b"3"])
    with pytest.raises(ConfigError, match=said):
        read(chosen and chosen(topic), **(given(topic) if given else {}))


def test_name_servers_that_are_away(read):
    with pytest.raises(RocketMQError, match=r"127\.0\.0\.1:1"):
        read(namesrv="127.0.0.1:1", retries=1)


def test_messages_that_are_gone(topic, read, send, caplog):
    send(topic, [b"1", b"2", b"3"])
    wanted = OffsetRange(queue(topic), 1, 9)
    with pytest.raises(DataLossError, match="from offset 3 to 9 are gone"):
        list(read_messages(wanted, read(retries=1).options))
    going_on = read(retries=1, fail_on_data_loss=False).options
    assert [each.body for each in read_messages(wanted, going_on)] == [b"2", b"3"]
    assert "offset 3 to 9 are gone" in caplog.text


@pytest.mark.waits("files are deleted by a service of the broker")
def test_messages_that_have_expired(expiring):
    namesrv, there = expiring.name_server_addresses, queue("Expiring")
    with Producer("messages-tests-expiring", namesrv=namesrv) as producer:
        for number in range(100):
            producer.send(Message("Expiring", b"%d" % number * 50))
    first = expire(expiring, of("Expiring", namesrv=namesrv))

    def planned(start, until, **given):
        return MessageRead.planned(of([OffsetRange(there, start, until)], namesrv=namesrv, **given))

    with pytest.raises(DataLossError, match=f"from offset 1 to {first} are gone: the oldest"):
        planned(1, 100)
    with pytest.raises(DataLossError, match="from offset 1 to 3 are gone"):
        planned(1, 3)
    assert planned(1, 1).parts() == []
    assert planned(1, 3, fail_on_data_loss=False).ranges == (OffsetRange(there, 3, 3),)
    going_on = planned(1, 100, fail_on_data_loss=False)
    assert [each.queue_offset for each in messages_of(going_on)] == list(range(first, 100))


def test_a_damaged_message_says_where_it_is(topic, read, send, monkeypatch):
    from rocketpy.spark.source import messages

    send(topic, [b"1"])
    (part,) = read().parts()
    decode = messages.decode_messages
    monkeypatch.setattr(messages, "decode_messages", lambda body, **more: decode(body[:-1], **more))
    with pytest.raises(MessageDecodeError) as failed:
        list(read_messages(part, read().options))
    assert failed.value.__notes__ == [f"while reading {topic}@broker-a:0 from offset 0 to 1"]


def test_a_read_that_is_left_early_stops_pulling(topic, read, send):
    send(topic, [b"%d" % number for number in range(200)])
    planned = read(pull_batch_size=1)
    (part,) = planned.parts()
    reader = read_messages(part, planned.options)
    assert next(reader).body == b"0"
    reader.close()


def test_a_loop_goes_on_where_its_group_has_committed(topic, read, send, namesrv):
    send(topic, [b"1", b"2"])
    group = f"loop-{topic}"
    first = read(group=group, start="committed")
    with pytest.raises(ConfigError, match=f"does not know the group {group}.*: commit after an action"):
        first.commit()
    assert bodies(first) == [b"1", b"2"]
    first.commit()
    with PullConsumer(group, namesrv=namesrv) as consumer:
        assert consumer.fetch_consume_offset(queue(topic)) == 2
    send(topic, [b"3"])
    second = read(group=group, start="committed")
    assert bodies(second) == [b"3"]
    # What was read and not committed is read again.
    assert bodies(read(group=group, start="committed")) == [b"3"]
    second.commit()
    assert read(group=group, start="committed").parts() == []


@pytest.mark.parametrize("commit", [Brokers.commit, Brokers.commit_some])
def test_one_offset_of_a_topic_is_committed_before_the_others(topic, cluster, read, monkeypatch, commit):
    """Apache's broker may lose one of two that are the first of a group and arrive at the same time."""
    cluster.create_topic(topic, queues=4)
    course, update = [], offset_api.update_consumer_offset

    async def noted(*words, **more):
        course.append("begins")
        try:
            return await update(*words, **more)
        finally:
            course.append("ends")

    monkeypatch.setattr(offset_api, "update_consumer_offset", noted)
    group = f"one-first-{topic}"
    given = read(group=group)
    offsets = {queue(topic, number): 0 for number in range(4)}
    with clients().use(given.options.client) as client:
        commit(Brokers(client.trio_client, given.options), group, offsets)
    assert sorted(course) == ["begins"] * 4 + ["ends"] * 4
    assert course[:3] == ["begins", "ends", "begins"]


def test_a_commit_that_a_broker_ignores_is_an_error(topic, read, send, monkeypatch):
    async def ignored(*_, **__):
        return False

    send(topic, [b"1"])
    given = read(group="g")
    monkeypatch.setattr(offset_api, "update_consumer_offset", ignored)
    with pytest.raises(ConfigError, match="or the group was reset since it was read, so its offsets are not committed"):
        given.commit()


def test_a_group_is_needed_to_commit(read):
    with pytest.raises(ConfigError, match="give rdd the group"):
        read().commit()


def test_a_topic_that_was_deleted_and_made_again(cluster, topic, read, send):
    send(topic, [b"1", b"2", b"3"])
    old = read(retries=1)
    delete_topic(cluster, topic)
    cluster.create_topic(topic, queues=2)
    send(topic, [b"new"])
    with pytest.raises(DataLossError, match="from offset 1 to 3 are gone: the queue ends at offset 1, so it may have"):
        messages_of(old)
    group = f"again-{topic}"
    assert bodies(read(group=group)) == [b"new"]
    with clients().use(old.options.client) as client:  # what brokers keep that do not forget the offsets of groups
        Brokers(client.trio_client, old.options).commit(group, {queue(topic): 3})
    with pytest.raises(DataLossError, match=r"from offset 1 to 3 are gone: .* deleted and created again"):
        read(group=group, start="committed")
    assert bodies(read(group=group, start="committed", fail_on_data_loss=False)) == [b"new"]
