"""Consuming in order: ours on Apache's servers, Apache's on ours, and one group of both while its members change."""

from __future__ import annotations

import base64
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest

import rocketpy
import rocketpy.sync
from rocketpy import ConsumeFromWhere, ConsumeResult, Message, MessageExt
from rocketpy.consumer.locks import lock_refusals
from tests.interop import probe
from tests.interop.drivers import java_push_consumer
from tests.interop.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.interop.apache import Apache, Cluster
    from tests.interop.drivers import JavaPushConsumer

pytestmark = [pytest.mark.interop, pytest.mark.waits("for Apache's servers and clients")]

FROM_FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
QUEUES = 4


@pytest.fixture(params=["apache_cluster", "our_servers"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(request.param)
    return found


def ours(cluster: Cluster, group: str, topic: str, listener: Any, **settings: Any) -> rocketpy.sync.PushConsumer:
    made = rocketpy.sync.PushConsumer(
        group, namesrv=cluster.namesrv, orderly=True, consume_from_where=FROM_FIRST, **settings
    )
    made.subscribe(topic, listener)
    return made


def send(cluster: Cluster, topic: str, first: int, last: int) -> None:
    with rocketpy.sync.Producer("in-order", namesrv=cluster.namesrv, send_timeout=10.0) as producer:
        for number in range(first, last):
            producer.send(Message(topic, b"body-%d" % number), selector=rocketpy.by_hash, arg=number)


def lines(got: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """(queue id, offset) of deliveries to the offsets of each queue, in order."""
    by_queue = groupby(sorted(enumerate(got), key=lambda each: (each[1][0], each[0])), key=lambda each: each[1][0])
    return {queue_id: [offset for _, (_, offset) in each] for queue_id, each in by_queue}


def of_ours(messages: list[MessageExt]) -> dict[int, list[int]]:
    return lines((message.queue_id, message.queue_offset) for message in messages)


def of_java(consumer: JavaPushConsumer) -> dict[int, list[int]]:
    return lines((each["queueId"], each["queueOffset"]) for each in consumer.messages)


def test_OR1_ours_keeps_the_order_and_the_dead_letters_of_either_broker(
    apache: Apache, cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group, inbox = fresh_name("In-order"), fresh_name("ordered-group"), Inbox()
    cluster.create_topic(topic, queues=QUEUES)

    def listener(message: MessageExt) -> ConsumeResult | None:
        inbox.take(message)
        if message.body == b"body-5":
            return ConsumeResult.RETRY  # to the end
        return ConsumeResult.RETRY if message.body == b"body-6" and message.reconsume_times == 0 else None

    with ours(cluster, group, topic, listener, max_reconsume_times=2, suspend_current_queue_time=0.1) as consumer:
        send(cluster, topic, 0, 80)
        messages = inbox.wait_here(83)
        probe.eventually(lambda: consumer.statistics().sent_back == 1 or None, "a dead letter", 10.0)
        assert all(lock.held for lock in consumer.status().locks.values())
    for queue_id, offsets in of_ours(messages).items():
        assert offsets == sorted(offsets), queue_id
        assert sorted(set(offsets)) == list(range(20)), queue_id
    dead = Inbox()
    with ours(cluster, fresh_name("undertaker"), f"%DLQ%{group}", dead.take):
        assert [message.body for message in dead.wait_here(1)] == [b"body-5"]
    again = Inbox()
    with ours(cluster, group, topic, again.take):
        send(cluster, topic, 80, 84)
        assert sorted(message.body for message in again.wait_here(4)) == [b"body-%d" % n for n in range(80, 84)]
    assert len(again.messages) == 4


def test_OR4_apaches_consumer_keeps_the_order_on_our_servers(
    apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group = fresh_name("Java-in-order"), fresh_name("java-ordered-group")
    our_servers.create_topic(topic, queues=QUEUES)
    with java_push_consumer(apache, our_servers.namesrv, group, topic, orderly=True, fail_first=1) as java:
        send(our_servers, topic, 0, 12)
        java.wait_messages(24)
        java.finish()
    for queue_id, offsets in of_java(java).items():
        assert offsets == [0, 0, 1, 1, 2, 2], queue_id


def test_OR4_apaches_consumer_gives_up_in_order_on_our_servers(
    apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str]
) -> None:
    """It sends a message that exceeds its limit to the retry topic, and our broker makes it a dead letter."""
    topic, group, dead = fresh_name("Java-gives-up"), fresh_name("java-giving-up"), Inbox()
    our_servers.create_topic(topic, queues=1)
    with java_push_consumer(
        apache, our_servers.namesrv, group, topic, orderly=True, fail_first=99, max_reconsume=1
    ) as java:
        send(our_servers, topic, 0, 3)
        java.wait_messages(6)
        with ours(our_servers, fresh_name("undertaker"), f"%DLQ%{group}", dead.take):
            buried = dead.wait_here(3)
        java.finish()
    assert [(each["queueOffset"], each["reconsumeTimes"]) for each in java.messages] == [
        (offset, attempt) for offset in range(3) for attempt in (0, 1)
    ]
    assert [message.body for message in buried] == [b"body-0", b"body-1", b"body-2"]
    assert {message.system_properties["RETRY_TOPIC"] for message in buried} == {topic}
    again = Inbox()
    with ours(our_servers, group, topic, again.take):
        send(our_servers, topic, 3, 4)
        assert [message.body for message in again.wait_here(1)] == [b"body-3"], "a dead letter counts as consumed"


def test_OR2_a_mixed_group_keeps_the_order_while_its_members_change(
    apache: Apache, cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group = fresh_name("Mixed-in-order"), fresh_name("mixed-ordered-group")
    cluster.create_topic(topic, queues=QUEUES)
    first, second = Inbox(), Inbox()
    with java_push_consumer(apache, cluster.namesrv, group, topic, orderly=True) as java:
        send(cluster, topic, 0, 40)
        java.wait_messages(40)
        with ours(cluster, group, topic, first.take) as consumer:
            probe.eventually(lambda: len(consumer.assignment) == 2 or None, "half of the queues", 60.0)
            java.wait_share(topic, 2)
            send(cluster, topic, 40, 80)
            total(80, java, first)
            mine = {queue.queue_id for queue in consumer.assignment}
            assert set(of_ours([each for each in first.messages if int(each.body[5:]) >= 40])) == mine
        java.wait_share(topic, 4)
        send(cluster, topic, 80, 100)
        total(100, java, first)
        with ours(cluster, group, topic, second.take) as consumer:
            java.finish()
            probe.eventually(lambda: len(consumer.assignment) == QUEUES or None, "all queues", 60.0)
            send(cluster, topic, 100, 120)
            total(120, java, first, second)
    seen = [of_java(java), of_ours(first.messages), of_ours(second.messages)]
    for queue_id in range(QUEUES):
        everywhere = [offset for member in seen for offset in member.get(queue_id, [])]
        assert sorted(set(everywhere)) == list(range(30))
        for member in seen:
            offsets = member.get(queue_id, [])
            assert offsets == sorted(offsets)


def test_complaint_15_a_member_in_java_says_that_it_has_the_lock_which_ours_waits_for(
    apache: Apache, apache_cluster: Cluster, fresh_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_refusals, "TOLD_AFTER", 0.5)
    topic, group = fresh_name("Held-in-order"), fresh_name("held-group")
    apache_cluster.create_topic(topic, queues=QUEUES)
    with java_push_consumer(apache, apache_cluster.namesrv, group, topic, orderly=True, busy_ms=8000) as java:
        send(apache_cluster, topic, 0, QUEUES)
        java.wait_messages(QUEUES)
        with ours(apache_cluster, group, topic, Inbox().take) as consumer:

            def holders() -> set[str] | None:
                locks = consumer.status().locks.items()
                return {lock.holder for queue, lock in locks if queue.topic == topic and lock.holder} or None

            assert probe.eventually(holders, "the holder", 20.0) == {java.of("ready")[0]["clientId"]}
            me = consumer.status().client_id
            probe.eventually(lambda: holders() == {me} or None, "the locks", 20.0)


def total(count: int, java: JavaPushConsumer, *inboxes: Inbox) -> None:
    """Wait until so many different messages have come to all of them together."""

    def look() -> bool | None:
        bodies = {base64.b64decode(each["body"]) for each in java.messages}
        for inbox in inboxes:
            bodies |= {message.body for message in inbox.messages}
        return len(bodies) >= count or None

    probe.eventually(look, f"{count} messages", 60.0)
