"""Every call of our Admin on Apache's servers, and on ours, with the same outcome."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from rocketpy import (
    AlreadyExistsError,
    BrokerError,
    BrokerNotFoundError,
    ConfigError,
    GroupNotFoundError,
    Message,
    MessageExt,
    MessageNotFoundError,
    RequestCodeNotSupportedError,
    RetryLater,
    TopicNotFoundError,
)
from rocketpy.admin import BrokerRuntime, DirectOutcome, TrackStatus
from rocketpy.message import MessageQueue
from tests.interop import probe
from tests.interop.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.interop.apache import Apache, Cluster

pytestmark = [pytest.mark.interop, pytest.mark.waits("for Apache's servers and clients")]

BROKER = "broker-a"


@pytest.fixture(params=["apache_cluster", "our_servers"])
def cluster(apache: Apache, request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[rocketpy.sync.Admin]:
    with rocketpy.sync.Admin(namesrv=cluster.namesrv, request_timeout=10) as made:
        yield made


def runtimes(admin: rocketpy.sync.Admin) -> tuple[BrokerRuntime, ...] | None:
    try:
        return admin.brokers.runtimes()
    except BrokerError:
        return None


def is_4(admin: rocketpy.sync.Admin) -> bool:
    return probe.eventually(lambda: runtimes(admin), "the state", 30.0)[0].version.startswith("V4")


def test_topics(admin: rocketpy.sync.Admin, fresh_name: Callable[[str], str]) -> None:
    topic = fresh_name("Made")
    [made] = admin.topics.create(topic, queues=3)
    assert (made.broker, made.write_queues, made.read_queues, made.permission) == (BROKER, 3, 3, "rw")
    assert admin.topics.get(topic) == (made,)
    assert topic in admin.topics.list()
    assert topic in admin.topics.list(cluster="InteropCluster")
    assert "TBW102" in admin.topics.list(internal=True)
    with pytest.raises(AlreadyExistsError):
        admin.topics.create(topic)
    [made] = admin.topics.update(topic, queues=4, permission="r")
    assert (made.write_queues, made.read_queues, made.permission) == (4, 4, "r")
    [place] = admin.topics.route(topic).brokers
    assert (place.broker, place.write_queues, place.permission) == (BROKER, 4, "r")
    assert [each.messages for each in admin.topics.stats(topic).queues] == [0] * 4
    admin.topics.delete(topic)
    for call in (admin.topics.get, admin.topics.route, admin.topics.stats, admin.topics.delete):
        with pytest.raises(TopicNotFoundError):
            call(topic)


def test_groups(admin: rocketpy.sync.Admin, fresh_name: Callable[[str], str]) -> None:
    group, topic = fresh_name("made-group"), fresh_name("Read")
    admin.topics.create(topic, queues=1)
    with pytest.raises(GroupNotFoundError):
        admin.groups.get(group)
    [made] = admin.groups.create(group, max_retries=3)
    assert (made.broker, made.max_retries, made.consume) == (BROKER, 3, True)
    assert admin.groups.get(group) == (made,)
    assert group in admin.groups.list()
    [made] = admin.groups.update(group, consume=False)
    assert (made.max_retries, made.consume) == (3, False)
    if not is_4(admin):
        admin.groups.set_readable(group, topic, False)
        assert admin.groups.get(group)[0].forbidden_topics == (topic,)
    admin.groups.delete(group, offsets=True)
    with pytest.raises(GroupNotFoundError):
        admin.groups.delete(group)


def test_messages_offsets_and_clients(
    cluster: Cluster, admin: rocketpy.sync.Admin, fresh_name: Callable[[str], str]
) -> None:
    topic, group, other, inbox = fresh_name("Orders"), fresh_name("billing"), fresh_name("copy"), Inbox()
    admin.topics.create(topic, queues=2)
    with rocketpy.sync.Producer(fresh_name("shop"), namesrv=cluster.namesrv, send_timeout=10.0) as producer:
        sent = [producer.send(Message(topic, b"%d" % number, keys=[f"key-{number}"])) for number in range(6)]
        # Apache's 5.x tells a consumer of a reset when its pull ends: held for a second, not for 15.
        settings = {"namesrv": cluster.namesrv, "broker_suspend_max_time": 1.0}
        with rocketpy.sync.PushConsumer(group, consume_from_where="first", **settings) as consumer:
            consumer.subscribe(topic, inbox.take)
            consumer.wait_assigned(20)
            inbox.wait_here(6)
            consumer.commit(10)
            look_at_messages(admin, topic, sent)
            look_at_clients(admin, topic, group, producer.config.group)
            [message] = admin.messages.query(topic, "key-2")
            assert [(each.group, each.status) for each in admin.messages.track(message)] == [
                (group, TrackStatus.CONSUMED)
            ]
            [client] = admin.consumers.connections(group).clients
            done = admin.consumers.consume(group, client.client_id, message)
            assert done.outcome is DirectOutcome.SUCCESS
            admin.offsets.reset(group, topic, "begin")
            inbox.wait_here(13)
            consumer.commit(10)
    lag = admin.offsets.lag(group, topic=topic)
    assert (lag.lag, len(lag.queues)) == (0, 2)
    assert group in [each.group for each in admin.offsets.lags()]
    assert sum(each.offset for each in admin.offsets.reset(group, topic, "begin")) == 0
    admin.offsets.commit(group, sent[0].queue, 1)
    assert admin.offsets.at(sent[0].queue, 0) == 0
    admin.groups.create(other)
    admin.offsets.clone(group, other, topic)
    assert admin.offsets.lag(other, topic=topic).lag == admin.offsets.lag(group, topic=topic).lag
    with pytest.raises(GroupNotFoundError):
        admin.offsets.lag("nobody")


def wait_stored(admin: rocketpy.sync.Admin, topic: str, count: int) -> None:
    """Wait for messages that were sent: Apache's broker acknowledges one a moment before it is in its queue."""
    probe.eventually(lambda: admin.topics.stats(topic).messages == count or None, "all messages in their queue", 20.0)


def look_at_messages(admin: rocketpy.sync.Admin, topic: str, sent: list[rocketpy.SendResult]) -> None:
    assert admin.messages.view(sent[1].offset_message_id).body == b"1"
    by_id = probe.eventually(lambda: admin.messages.query_unique(topic, sent[1].message_id) or None, "the index", 20.0)
    assert [each.body for each in by_id] == [b"1"]
    assert admin.messages.view(sent[1].message_id, topic=topic).body == b"1"
    with pytest.raises(MessageNotFoundError):
        admin.messages.view(sent[1].offset_message_id[:-8] + "7FFFFFF0")
    assert [each.queue_offset for each in admin.messages.read(sent[0].queue, begin=1)] == [1, 2]
    assert len(admin.messages.by_time(topic, 0)) == 6
    assert admin.messages.by_time(topic, int(time.time() * 1000) + 60_000) == ()
    assert admin.topics.stats(topic).messages == 6


def look_at_clients(admin: rocketpy.sync.Admin, topic: str, group: str, producers: str) -> None:
    found = admin.consumers.connections(group)
    [client] = found.clients
    assert (client.language, client.version, found.is_push) == ("PYTHON", "5.3.3", True)
    state = admin.consumers.state(group, client.client_id, stacks=True)
    assert {each.queue.topic for each in state.queues} >= {topic}
    assert state.stacks
    assert {each.client_id for each in admin.consumers.offsets(group, topic)} == {client.client_id}
    assert group in admin.consumers.of_topic(topic)
    assert topic in admin.consumers.topics(group)
    connected = probe.eventually(lambda: connections(admin, producers), "the producer's heartbeat", 40.0)
    assert [each.language for each in connected] == ["PYTHON"]
    assert producers in [each.group for each in admin.producers.list()]


def connections(admin: rocketpy.sync.Admin, group: str) -> tuple[object, ...] | None:
    try:
        return admin.producers.connections(group)
    except GroupNotFoundError:
        return None


def test_dead_letters(cluster: Cluster, admin: rocketpy.sync.Admin, fresh_name: Callable[[str], str]) -> None:
    topic, group, inbox = fresh_name("Payments"), fresh_name("bank"), Inbox()
    admin.topics.create(topic, queues=1)

    def give_up(message: MessageExt) -> RetryLater:
        inbox.take(message)
        return RetryLater(-1)

    with rocketpy.sync.PushConsumer(group, namesrv=cluster.namesrv) as consumer:
        consumer.subscribe(topic, give_up)
        consumer.wait_assigned(20)
        with rocketpy.sync.Producer("shop", namesrv=cluster.namesrv, send_timeout=10.0) as producer:
            sent = producer.send(Message(topic, b"one"))
        inbox.wait_here(1)
        probe.eventually(lambda: consumer.statistics().sent_back == 1 or None, "a dead letter", 30.0)
    admin.topics.update(f"%DLQ%{group}", permission="rw")
    [letter] = probe.eventually(lambda: admin.messages.dead_letters(group) or None, "a dead letter to read", 20.0)
    assert (letter.body, letter.system_properties["RETRY_TOPIC"]) == (b"one", topic)
    assert admin.messages.replay_dead_letters(group).replayed == 1
    again = admin.messages.resend(admin.messages.view(sent.offset_message_id))
    assert again.message_id == sent.message_id
    wait_stored(admin, topic, 3)


def test_brokers_and_name_servers(admin: rocketpy.sync.Admin, fresh_name: Callable[[str], str]) -> None:
    [broker] = admin.brokers.list()
    assert (broker.name, broker.cluster, broker.is_master) == (BROKER, "InteropCluster", True)
    assert admin.brokers.config(BROKER)["brokerName"] == BROKER
    assert admin.brokers.config(broker.address)["brokerName"] == BROKER
    admin.brokers.update_config({"defaultTopicQueueNums": 8})
    assert admin.brokers.config(BROKER)["defaultTopicQueueNums"] == "8"
    # Apache's brokers of 4.x fail until they have counted for the first time.
    [state] = probe.eventually(lambda: runtimes(admin), "the state", 30.0)
    assert state.started_at is not None
    assert None not in (state.puts_today, state.gets_today, state.disk_used, state.commit_log_end)
    assert admin.brokers.stats(BROKER, "TOPIC_PUT_NUMS", fresh_name("Nothing")) is None
    assert admin.brokers.set_writable(BROKER, False) > 0
    assert admin.brokers.set_writable(BROKER, True) > 0
    admin.brokers.delete_expired_queues()
    admin.brokers.delete_unused_queues()
    with pytest.raises(BrokerNotFoundError):
        admin.brokers.runtime("nobody")
    servers = admin.name_servers
    servers.put("room", "one", "1")
    assert (servers.get("room", "one"), servers.list("room")["one"], servers.get("room", "two")) == ("1", "1", None)
    servers.delete("room", "one")
    assert servers.get("room", "one") is None
    servers.set_order(fresh_name("Ordered"), {BROKER: 4})
    servers.update_config({"orderMessageEnable": True})
    assert [each["orderMessageEnable"] for each in servers.config()] == ["true"]
    try:
        admin.brokers.delete_expired_files()
    except RequestCodeNotSupportedError:
        assert is_4(admin)


def test_what_servers_ignore_is_told(cluster: Cluster, admin: rocketpy.sync.Admin) -> None:
    with pytest.raises(BrokerError):
        admin.brokers.update_config({"noSuchSettingExists": "1"})
    with pytest.raises(BrokerError):
        admin.brokers.update_config({"defaultTopicQueueNums": "many"})
    admin.brokers.update_config({"defaultTopicQueueNums": 7})
    assert admin.brokers.config(BROKER)["defaultTopicQueueNums"] == "7"
    admin.brokers.update_config({"defaultTopicQueueNums": 8})
    with pytest.raises(BrokerError):
        admin.name_servers.update_config({"noSuchSettingExists": "1"})


def test_offsets_that_cannot_be(cluster: Cluster, admin: rocketpy.sync.Admin, fresh_name: Callable[[str], str]) -> None:
    topic, group, other = fresh_name("Offsets"), fresh_name("audit"), fresh_name("reports")
    admin.topics.create(topic, queues=1)
    for each in (group, other):
        admin.groups.create(each)
    for queue in (MessageQueue(topic, BROKER, 1), MessageQueue(topic, "broker-z", 0)):
        with pytest.raises((ConfigError, BrokerNotFoundError)):
            admin.offsets.commit(group, queue, 0)
    with pytest.raises(TopicNotFoundError):
        admin.offsets.commit(group, MessageQueue(fresh_name("Nowhere"), BROKER, 0), 0)
    with pytest.raises(GroupNotFoundError, match="has no offset in"):
        admin.offsets.clone(group, other, topic)
    admin.offsets.commit(group, MessageQueue(topic, BROKER, 0), 0)
    admin.offsets.clone(group, other, topic)
    [found] = admin.offsets.reset(group, topic, datetime(1969, 1, 1, tzinfo=UTC))
    assert found.offset == 0
    with rocketpy.sync.Producer(fresh_name("shop"), namesrv=cluster.namesrv) as producer:
        for number in range(3):
            producer.send(Message(topic, b"%d" % number))
    wait_stored(admin, topic, 3)
    admin.offsets.reset(group, topic, "end")
    admin.offsets.commit(group, MessageQueue(topic, BROKER, 0), 1)
    assert admin.offsets.lag(group, topic=topic).lag == 2
    admin.offsets.reset(other, topic, "end")
    admin.offsets.clone(group, other, topic)
    assert admin.offsets.lag(other, topic=topic).lag == 2


def test_the_order_configuration(admin: rocketpy.sync.Admin, fresh_name: Callable[[str], str]) -> None:
    topic = fresh_name("Ledger")
    [broker] = admin.brokers.list()
    [made] = admin.topics.create(topic, queues=2, order=True, brokers=[broker.address])
    assert made.order is not is_4(admin)
    assert admin.name_servers.get("ORDER_TOPIC_CONFIG", topic) == f"{BROKER}:2"
    admin.topics.update(topic, queues=3)
    assert admin.name_servers.get("ORDER_TOPIC_CONFIG", topic) == f"{BROKER}:3"
    admin.topics.delete(topic)
    assert admin.name_servers.get("ORDER_TOPIC_CONFIG", topic) is None
