"""One group of Apache's consumers and ours, on Apache's servers and on ours: they share queues and messages."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from rocketpy import ConsumeFromWhere, Message
from tests.interop import probe
from tests.interop.drivers import java_push_consumer
from tests.interop.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.interop.apache import Apache, Cluster
    from tests.interop.drivers import JavaPushConsumer

pytestmark = pytest.mark.interop

QUEUES = 5
QUERY_CONSUMER_OFFSET = 14


@pytest.fixture(params=["apache_cluster", "our_servers"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(request.param)
    return found


def send(cluster: Cluster, topic: str, first: int, last: int) -> None:
    with rocketpy.sync.Producer("mixed-groups", namesrv=cluster.namesrv, send_timeout=10.0) as producer:
        for number in range(first, last):
            producer.send(Message(topic, b"body-%d" % number))


def java_bodies(consumer: JavaPushConsumer) -> list[str]:
    return [base64.b64decode(each["body"]).decode() for each in consumer.messages]


def test_a_mixed_group_shares_the_queues_and_gets_all_messages_once(
    apache: Apache, cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group, inbox = fresh_name("Shared"), fresh_name("sharing-group"), Inbox()
    cluster.create_topic(topic, queues=QUEUES)
    with java_push_consumer(apache, cluster.namesrv, group, topic) as java:
        ours = rocketpy.sync.PushConsumer(
            group, namesrv=cluster.namesrv, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        )
        ours.subscribe(topic, inbox.take)
        with ours:
            javas, own = settled_shares([java], ours, topic)
            assert sorted(map(len, (javas, own))) == [2, 3]
            send(cluster, topic, 0, 100)
            wait_for_both(java, inbox, 100)
            assert {f"{message.broker_name}:{message.queue_id}" for message in inbox.messages} == own
            assert {f"{each['brokerName']}:{each['queueId']}" for each in java.messages} == javas
        java.wait_share(topic, QUEUES)
        send(cluster, topic, 100, 120)
        wait_for_both(java, inbox, 120)
        java.finish()
    got = java_bodies(java) + [message.body.decode() for message in inbox.messages]
    assert sorted(got) == sorted(f"body-{n}" for n in range(120))
    assert {message.reconsume_times for message in inbox.messages} == {0}
    assert committed(cluster, group, topic) == 120


@pytest.mark.parametrize("strategy", ["by_circle", "consistent_hash"])
def test_complaint_22_a_mixed_group_shares_by_other_strategies(
    apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str], strategy: str
) -> None:
    """Every queue has one owner, whichever of the two computed it, and the shares are not those of the default."""
    topic, group, inbox, queues = fresh_name("Strategy"), fresh_name("strategy-group"), Inbox(), 16
    our_servers.create_topic(topic, queues=queues)
    with java_push_consumer(apache, our_servers.namesrv, group, topic, allocate=strategy) as java:
        ours = rocketpy.sync.PushConsumer(
            group,
            namesrv=our_servers.namesrv,
            allocate_strategy=strategy,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        )
        ours.subscribe(topic, inbox.take)
        with ours:
            javas, own = settled_shares([java], ours, topic, queues)
            numbers = sorted(int(queue.rpartition(":")[2]) for queue in own)
            assert numbers not in (list(range(8)), list(range(8, 16)))
            send(our_servers, topic, 0, 160)
            wait_for_both(java, inbox, 160)
            assert {f"{message.broker_name}:{message.queue_id}" for message in inbox.messages} == own
            assert {f"{each['brokerName']}:{each['queueId']}" for each in java.messages} == javas
        java.finish()
    got = java_bodies(java) + [message.body.decode() for message in inbox.messages]
    assert sorted(got) == sorted(f"body-{n}" for n in range(160))


def test_clients_of_both_lines_and_ours_make_one_group(
    both_lines: tuple[Apache, ...], our_servers: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group, inbox, namesrv = fresh_name("Three"), fresh_name("three-group"), Inbox(), our_servers.namesrv
    our_servers.create_topic(topic, queues=QUEUES)
    ours = rocketpy.sync.PushConsumer(
        group, namesrv=namesrv, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    )
    ours.subscribe(topic, inbox.take)
    with (
        java_push_consumer(both_lines[0], namesrv, group, topic) as newer,
        java_push_consumer(both_lines[1], namesrv, group, topic) as older,
        ours,
    ):
        *shares, own = settled_shares([newer, older], ours, topic)
        assert sorted(map(len, (*shares, own))) == [1, 2, 2]
        send(our_servers, topic, 0, 100)
        probe.eventually(
            lambda: len(newer.messages) + len(older.messages) + len(inbox.messages) >= 100 or None, "100 messages", 30.0
        )
        for java, share in zip((newer, older), shares, strict=True):
            assert {f"{each['brokerName']}:{each['queueId']}" for each in java.messages} == share
        got = java_bodies(newer) + java_bodies(older) + [message.body.decode() for message in inbox.messages]
        assert sorted(got) == sorted(f"body-{n}" for n in range(100))
        for java in (older, newer):
            java.finish()
    assert committed(our_servers, group, topic) == 100


def settled_shares(
    javas: Sequence[JavaPushConsumer], ours: rocketpy.sync.PushConsumer, topic: str, queues: int = QUEUES
) -> list[set[str]]:
    """Wait until they have all queues between them, and none twice; ours comes last."""

    def look() -> list[set[str]] | None:
        shares = [set(java.share.get(topic, ())) for java in javas]
        shares.append({f"{queue.broker_name}:{queue.queue_id}" for queue in ours.assignment})
        settled = all(shares) and sum(map(len, shares)) == len(set.union(*shares)) == queues
        return shares if settled else None

    return probe.eventually(look, "settled shares", 40.0)


def wait_for_both(java: JavaPushConsumer, inbox: Inbox, count: int) -> None:
    probe.eventually(
        lambda: len(java.messages) + len(inbox.messages) >= count or None, f"{count} messages at the two", 30.0
    )


def committed(cluster: Cluster, group: str, topic: str) -> int:
    """The sum of the committed offsets."""
    fields = {"consumerGroup": group, "topic": topic}
    answers = [
        probe.call(cluster.brokers[0].address, QUERY_CONSUMER_OFFSET, {**fields, "queueId": queue_id})
        for queue_id in range(QUEUES)
    ]
    return sum(int(answer.fields["offset"]) for answer in answers)
