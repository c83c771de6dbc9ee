"""Lite pull consumers and pull consumers, ours and Apache's, on Apache's servers and on ours."""

from __future__ import annotations

import base64
import time
from concurrent.futures import ThreadPoolExecutor, wait
from queue import Queue
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from rocketpy import ConsumeFromWhere, FilterRefusedError, Message, PullStatus
from tests.interop import probe
from tests.interop.drivers import java_lite_pull_consumer, java_produce, java_push_consumer
from tests.interop.lines import OLDER

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.apache import Apache, Cluster

pytestmark = [pytest.mark.interop, pytest.mark.waits("waits for Apache's servers and clients")]

QUEUES = 4
QUERY_CONSUMER_OFFSET = 14


@pytest.fixture(params=["apache_cluster", "our_servers"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(request.param)
    return found


def lite(cluster: Cluster, group: str, **settings: object) -> rocketpy.sync.LitePullConsumer:
    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    return rocketpy.sync.LitePullConsumer(group, namesrv=cluster.namesrv, consume_from_where=first, **settings)


def send(cluster: Cluster, topic: str, count: int, *, first: int = 0, tags: str | None = None) -> None:
    """Send messages with numbers, each in its body and in its property `n`."""
    with rocketpy.sync.Producer("lite-senders", namesrv=cluster.namesrv, send_timeout=10.0) as producer:
        for number in range(first, first + count):
            producer.send(Message(topic, b"body-%d" % number, tags=tags, properties={"n": str(number)}))


def drain_messages(
    consumer: rocketpy.sync.LitePullConsumer, count: int, *, within: float = 30.0
) -> list[rocketpy.MessageExt]:
    got: list[rocketpy.MessageExt] = []
    end = time.monotonic() + within
    while len(got) < count:
        assert time.monotonic() < end, f"{len(got)} of {count} came; {consumer.status()}"
        got += consumer.poll(timeout=1)
    return got


def drain(consumer: rocketpy.sync.LitePullConsumer, count: int) -> list[str]:
    return [message.body.decode().rstrip(".") for message in drain_messages(consumer, count)]


def numbered(first: int, last: int) -> list[str]:
    return sorted(f"body-{number}" for number in range(first, last))


def bodies(events: list[dict[str, object]]) -> list[str]:
    return sorted(base64.b64decode(str(each["body"])).decode() for each in events)


def committed(cluster: Cluster, group: str, topic: str) -> list[int]:
    address = cluster.brokers[0].address
    answers = [
        probe.call(address, QUERY_CONSUMER_OFFSET, {"consumerGroup": group, "topic": topic, "queueId": queue_id})
        for queue_id in range(QUEUES)
    ]
    return [int(answer.fields.get("offset", 0)) for answer in answers]


# --- ours, on Apache's -----------------------------------------------------------------------------------


def test_ours_subscribes_filters_commits_and_goes_on(
    apache: Apache, apache_cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group = fresh_name("Lite"), fresh_name("lite-group")
    apache_cluster.create_topic(topic, queues=QUEUES)
    java_produce(apache, apache_cluster.namesrv, topic, 40, tags="Aa,BB")
    with lite(apache_cluster, group) as consumer:
        consumer.subscribe(topic, tags="Aa")
        got = drain(consumer, 20)
        assert sorted(got) == sorted(f"body-{number}" for number in range(0, 40, 2))
        consumer.commit()
        assert committed(apache_cluster, group, topic) == [consumer.committed(queue) for queue in consumer.assignment]
    send(apache_cluster, topic, 5, first=100, tags="Aa")
    with lite(apache_cluster, group) as again:
        again.subscribe(topic, tags="Aa")
        assert sorted(drain(again, 5)) == numbered(100, 105)
        assert again.poll(timeout=1) == []


def test_ours_assigns_seeks_and_pauses(
    apache: Apache, apache_cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group = fresh_name("Lite"), fresh_name("lite-group")
    apache_cluster.create_topic(topic, queues=QUEUES)
    send(apache_cluster, topic, 40)
    consumer = lite(apache_cluster, group, auto_commit=False)
    queues = consumer.fetch_message_queues(topic)
    assert [queue.queue_id for queue in queues] == list(range(QUEUES))
    consumer.assign(queues[:2])
    with consumer:
        assert len(drain(consumer, 20)) == 20
        zero, one = queues[:2]
        assert (consumer.beginning_offset(zero), consumer.end_offset(zero)) == (0, 10)
        consumer.pause([one])
        consumer.seek(zero, 7)
        assert [message.queue_offset for message in consumer.poll(timeout=10)] == [7, 8, 9]
        with pytest.raises(rocketpy.OffsetOutOfRangeError, match="seek to an offset from 0 to 10"):
            consumer.seek(zero, 11)
        consumer.seek_to_begin(zero)
        again = sorted(drain_messages(consumer, 10), key=lambda message: message.queue_offset)
        assert [message.queue_offset for message in again] == list(range(10))
        # Apache's broker may find any one of several messages of the same millisecond.
        moment = again[0].store_timestamp
        at = consumer.offset_for_timestamp(zero, moment)
        assert at in {message.queue_offset for message in again if message.store_timestamp == moment}
        consumer.seek_to_timestamp(zero, moment)
        assert len(drain(consumer, 10 - at)) == 10 - at
        consumer.commit({zero: 4})
        assert consumer.committed(zero) == 4
        consumer.resume([one])
        assert consumer.lag() == {zero: 0, one: 0}


@pytest.mark.parametrize("way", ["subscribe", "assign"])
def test_ours_filters_by_sql(
    apache: Apache, apache_cluster: Cluster, fresh_name: Callable[[str], str], way: str
) -> None:
    topic, group = fresh_name("Lite"), fresh_name("lite-group")
    apache_cluster.create_topic(topic, queues=QUEUES)
    send(apache_cluster, topic, 20, tags="red")
    consumer = lite(apache_cluster, group)

    def want(sql: str) -> None:
        if way == "subscribe":
            consumer.subscribe(topic, sql=sql)
        else:
            consumer.assign(consumer.fetch_message_queues(topic), sql=sql)

    want("TAGS = 'red' AND n BETWEEN 5 AND 9")
    with consumer:
        assert sorted(drain(consumer, 5)) == numbered(5, 10)
        assert consumer.poll(timeout=1) == []
        want("n >= 100")
        send(apache_cluster, topic, 4, first=98)
        assert sorted(drain(consumer, 2)) == numbered(100, 102)
        assert consumer.status().errors == {}
        # A wrong one is no longer pulled by: Apache's broker would answer with everything.
        want("n >")
        send(apache_cluster, topic, 4)
        probe.eventually(
            lambda: isinstance(consumer.status().errors.get(topic), FilterRefusedError) or None, "the refusal", 30.0
        )
        assert consumer.poll(timeout=3) == []
    refused = lite(apache_cluster, group)
    refused.subscribe(topic, sql="n >")
    with pytest.raises(FilterRefusedError, match="correct the expression"):
        refused.__enter__()


def test_ours_pulls_by_queue_and_offset(
    apache: Apache, apache_cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group = fresh_name("Pull"), fresh_name("pull-group")
    apache_cluster.create_topic(topic, queues=1)
    send(apache_cluster, topic, 10, tags="red")
    with rocketpy.sync.PullConsumer(
        group, namesrv=apache_cluster.namesrv, broker_suspend_max_time=1, consumer_timeout_when_suspend=15
    ) as consumer:
        (queue,) = consumer.fetch_message_queues(topic)
        found = consumer.pull(queue, 6, max_messages=20)
        assert (found.status, len(found.messages), found.next_begin_offset) == (PullStatus.FOUND, 4, 10)
        assert consumer.pull(queue, 10).status is PullStatus.NO_NEW_MSG
        assert consumer.pull_block_if_not_found(queue, 10).status is PullStatus.NO_NEW_MSG
        assert consumer.pull(queue, 0, tags="blue").status is PullStatus.NO_MATCHED_MSG
        assert len(consumer.pull(queue, 0, sql="n BETWEEN 2 AND 4").messages) == 3
        with pytest.raises(FilterRefusedError, match="correct the expression"):
            consumer.pull(queue, 0, sql="n >")
        beyond = consumer.pull(queue, 99)
        assert (beyond.status, beyond.next_begin_offset) == (PullStatus.OFFSET_ILLEGAL, 10)
        # The older one answers for a group that has committed nothing as if it had committed the beginning.
        assert consumer.fetch_consume_offset(queue) == (0 if apache.version == OLDER else None)
        consumer.update_consume_offset(queue, 3)
        assert consumer.fetch_consume_offset(queue) == 3


def test_pulls_of_one_queue_are_held_side_by_side(
    apache: Apache, apache_cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic = fresh_name("Held")
    apache_cluster.create_topic(topic, queues=1)
    with (
        rocketpy.sync.PullConsumer(fresh_name("held-group"), namesrv=apache_cluster.namesrv) as consumer,
        ThreadPoolExecutor(3) as threads,
    ):
        (queue,) = consumer.fetch_message_queues(topic)
        held = [threads.submit(consumer.pull_block_if_not_found, queue, 0) for _ in range(3)]
        answered, _ = wait(held, timeout=1)
        assert not answered
        send(apache_cluster, topic, 1)
        assert [pull.result(10).status for pull in held] == [PullStatus.FOUND] * 3


# --- Apache's, on ours and on Apache's ----------------------------------------------------------------------


def test_apaches_lite_pull_consumer(apache: Apache, cluster: Cluster, fresh_name: Callable[[str], str]) -> None:
    topic, group = fresh_name("Lite"), fresh_name("lite-group")
    cluster.create_topic(topic, queues=QUEUES)
    send(cluster, topic, 40)
    with java_lite_pull_consumer(apache, cluster.namesrv, group, topic) as java:
        assert bodies(java.wait_messages(40)) == numbered(0, 40)
        java.finish()
    assert committed(cluster, group, topic) == [10] * QUEUES
    # Ours goes on where it ended.
    send(cluster, topic, 8, first=40)
    with lite(cluster, group) as ours:
        ours.subscribe(topic)
        assert sorted(drain(ours, 8)) == numbered(40, 48)
    with java_lite_pull_consumer(
        apache, cluster.namesrv, fresh_name("g"), topic, assign=True, seek=5, after=QUEUES * 12
    ) as java:
        java.wait_messages(QUEUES * 7)
        assert {each["queueOffset"] for each in java.messages} == set(range(5, 12))


def test_apaches_lite_pull_consumer_filters_by_sql_at_our_broker(
    apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group = fresh_name("Lite"), fresh_name("lite-group")
    our_servers.create_topic(topic, queues=QUEUES)
    send(our_servers, topic, 20, tags="red")
    with java_lite_pull_consumer(
        apache, our_servers.namesrv, group, topic, sql="TAGS = 'red' AND n BETWEEN 5 AND 9"
    ) as java:
        assert bodies(java.wait_messages(5)) == numbered(5, 10)
        send(our_servers, topic, 20)
        send(our_servers, topic, 1, first=7, tags="red")
        assert bodies(java.wait_messages(6)) == sorted([*numbered(5, 10), "body-7"])
        java.finish()
        assert len(java.messages) == 6


def test_three_hundred_tags(apache: Apache, cluster: Cluster, fresh_name: Callable[[str], str]) -> None:
    topic = fresh_name("Tags")
    cluster.create_topic(topic, queues=QUEUES)
    send(cluster, topic, 4, tags="t299")
    send(cluster, topic, 4, first=4, tags="t300")
    tags = " || ".join(f"t{number}" for number in range(300))
    with lite(cluster, fresh_name("lite-group")) as pulled:
        pulled.subscribe(topic, tags=tags)
        assert sorted(drain(pulled, 4)) == numbered(0, 4)
    got: Queue[bytes] = Queue()
    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    pushed = rocketpy.sync.PushConsumer(fresh_name("push-group"), namesrv=cluster.namesrv, consume_from_where=first)
    pushed.subscribe(topic, lambda message: got.put(message.body), tags=tags)
    with pushed:
        assert sorted(got.get(timeout=30).decode() for _ in range(4)) == numbered(0, 4)
        # Apache's broker creates the group's retry topic a moment after the first heartbeat.
        assert probe.eventually(lambda: pushed.status().errors == {} or None, "no errors", 30.0)
    with java_lite_pull_consumer(apache, cluster.namesrv, fresh_name("lite-group"), topic, tags=tags) as java:
        assert bodies(java.wait_messages(4)) == numbered(0, 4)


def test_a_mixed_group_shares_the_queues(apache: Apache, cluster: Cluster, fresh_name: Callable[[str], str]) -> None:
    topic, group = fresh_name("Lite"), fresh_name("lite-group")
    cluster.create_topic(topic, queues=QUEUES)
    with java_lite_pull_consumer(apache, cluster.namesrv, group, topic) as java, lite(cluster, group) as ours:
        ours.subscribe(topic)
        probe.eventually(lambda: len(ours.assignment) == QUEUES // 2 or None, "half of the queues", 60.0)
        java.wait_share(topic, QUEUES // 2)
        send(cluster, topic, 80)
        mine = drain(ours, 40)
        theirs = bodies(java.wait_messages(40))
        assert sorted(mine + theirs) == numbered(0, 80)


def test_ours_beside_apaches_push_consumer(
    apache: Apache, apache_cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group = fresh_name("Lite"), fresh_name("lite-group")
    apache_cluster.create_topic(topic, queues=QUEUES)
    with (
        java_push_consumer(apache, apache_cluster.namesrv, group, topic) as java,
        lite(apache_cluster, group) as ours,
    ):
        ours.subscribe(topic)
        java.wait_share(topic, QUEUES // 2)
        send(apache_cluster, topic, 40)
        mine = drain(ours, 20)
        assert sorted(mine + bodies(java.wait_messages(20))) == numbered(0, 40)
