"""What administrators have consumers do through a broker: Java's admin client, brokers and consumers of both kinds.

Every question goes three ways: to a Java consumer by our broker, to ours by our broker, to ours by Apache's.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import rocketpy.sync
from rocketpy import ConsumeFromWhere, ConsumeResult, MessageExt, TopicNotFoundError
from tests.interop import probe
from tests.interop.drivers import java_produce, java_push_consumer
from tests.interop.failure import InteropError
from tests.interop.inbox import Inbox
from tests.interop.lines import OLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.interop.apache import Apache, Cluster
    from tests.interop.drivers import JavaAdmin

pytestmark = [pytest.mark.interop, pytest.mark.waits("waits for Apache's server")]

UPDATE_BROKER_CONFIG = 25
PERSIST_MS = 1_000
"""Between commits of offsets, not 5,000: most of what is asked here waits for one."""


@dataclass
class Scene:
    """A cluster, Apache's admin client on it, and a group with one consumer, which has got what was sent."""

    cluster: Cluster
    admin: JavaAdmin
    topic: str
    group: str
    client_id: str
    count: Callable[[], int]
    """Messages that the consumer has got."""
    ids: list[str]
    is_python: bool

    def run(self, command: str, **more: object) -> object:
        return self.admin.run(command, group=self.group, topic=self.topic, client=self.client_id, **more)

    def wait_count(self, count: int) -> None:
        probe.eventually(lambda: self.count() >= count or None, f"{count} messages", 60.0)

    def wait_committed(self) -> dict[str, Any]:
        """Wait until all of the topic is committed; what the broker tells of it."""

        def done() -> dict[str, Any] | None:
            stats = self.run("consume_stats")
            assert isinstance(stats, dict)
            return stats if stats["diff"] == 0 else None

        return probe.eventually(done, "the offsets to be committed", 30.0)


WAYS = ["java by ours", "python by ours", "python by apache"]


@pytest.fixture(params=WAYS)
def scene(
    request: pytest.FixtureRequest,
    apache: Apache,
    our_servers: Cluster,
    our_admin: JavaAdmin,
    fresh_name: Callable[[str], str],
) -> Iterator[Scene]:
    yield from _scene(request, apache, our_servers, our_admin, fresh_name)


@pytest.fixture(params=WAYS)
def scene_in_order(
    request: pytest.FixtureRequest,
    apache: Apache,
    our_servers: Cluster,
    our_admin: JavaAdmin,
    fresh_name: Callable[[str], str],
) -> Iterator[Scene]:
    yield from _scene(request, apache, our_servers, our_admin, fresh_name, orderly=True)


def _scene(
    request: pytest.FixtureRequest,
    apache: Apache,
    our_servers: Cluster,
    our_admin: JavaAdmin,
    fresh_name: Callable[[str], str],
    *,
    orderly: bool = False,
) -> Iterator[Scene]:
    consumer, _, broker = request.param.partition(" by ")
    cluster, admin = our_servers, our_admin
    if broker == "apache":
        cluster, admin = request.getfixturevalue("apache_cluster"), request.getfixturevalue("apache_admin")
    topic, group = fresh_name("Inside"), fresh_name("inside-group")
    cluster.create_topic(topic, queues=2)
    sent = java_produce(apache, cluster.namesrv, topic, 10)
    ids = [each["offsetMsgId"] for each in sent.results]
    started = (
        _java(apache, cluster, topic, group, orderly=orderly)
        if consumer == "java"
        else _python(cluster, topic, group, orderly=orderly)
    )
    with started as (client_id, count):
        made = Scene(cluster, admin, topic, group, client_id, count, ids, consumer == "python")
        made.wait_count(10)
        probe.eventually(lambda: _is_found(made), "the group to be found by its retry topic", 30.0)
        yield made


def _is_found(scene: Scene) -> bool | None:
    """Whether name servers know the topic by which tools look for the group: Apache's broker tells them after a while,
    and one of ours that has waited for them half a second goes on.
    """
    with rocketpy.sync.PullConsumer(f"looks-for-{scene.group}", namesrv=scene.cluster.namesrv) as looks:
        try:
            return bool(looks.fetch_message_queues(f"%RETRY%{scene.group}"))
        except TopicNotFoundError:
            return None


@contextmanager
def _java(
    apache: Apache, cluster: Cluster, topic: str, group: str, *, orderly: bool
) -> Iterator[tuple[str, Callable[[], int]]]:
    options = {"orderly": orderly, "persist_ms": PERSIST_MS}
    with java_push_consumer(apache, cluster.namesrv, group, topic, **options) as consumer:
        [ready] = consumer.of("ready")
        yield ready["clientId"], lambda: len(consumer.messages)


@contextmanager
def _python(cluster: Cluster, topic: str, group: str, *, orderly: bool) -> Iterator[tuple[str, Callable[[], int]]]:
    inbox = Inbox()
    where = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    with rocketpy.sync.PushConsumer(
        group,
        namesrv=cluster.namesrv,
        consume_from_where=where,
        orderly=orderly,
        persist_consumer_offset_interval=PERSIST_MS / 1000,
    ) as consumer:
        consumer.subscribe(topic, inbox.take)
        consumer.wait_assigned(20)
        yield consumer.status().client_id, lambda: len(inbox.messages)


def test_PC7_a_consumer_tells_how_it_is_inside(scene: Scene) -> None:
    info = scene.run("running_info", jstack=True)
    assert isinstance(info, dict)
    properties = info["properties"]
    assert properties["consumerGroup"] == scene.group
    assert properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert properties["PROP_CONSUMEORDERLY"] == "false"
    assert scene.cluster.namesrv in properties["PROP_NAMESERVER_ADDR"]
    assert info["subscriptions"] == 2
    mine = {name: held for name, held in info["queues"].items() if name.startswith(scene.topic)}
    assert sum(held["commitOffset"] for held in mine.values()) == 10
    assert all(held["lastPullTimestamp"] > 1_600_000_000_000 and not held["droped"] for held in mine.values())
    assert scene.topic in info["status"]
    assert info["jstack"]
    assert scene.topic in info["formatted"]
    if scene.is_python:
        assert "rocketpy.consumer.pulling.pull.QueuePuller.run(pull.py:" in info["jstack"]
        assert info["status"][scene.topic]["consumeOKTPS"] > 0


def test_PC7_a_consumer_in_order_tells_of_its_locks(scene_in_order: Scene) -> None:
    info = scene_in_order.run("running_info")
    assert isinstance(info, dict)
    assert info["properties"]["PROP_CONSUMEORDERLY"] == "true"
    mine = [held for name, held in info["queues"].items() if name.startswith(scene_in_order.topic)]
    assert len(mine) == 2
    for held in mine:
        assert held["locked"]
        assert held["lastLockTimestamp"] > 1_600_000_000_000
        assert (held["tryUnlockTimes"], held["transactionMsgCount"], held["droped"]) == (0, 0, False)
    assert info["analyzed"] == ""  # what consumerStatus finds wrong


def test_PC7_a_message_is_consumed_directly(scene: Scene) -> None:
    told = scene.run("consume_directly", id=scene.ids[3])
    assert told == {"result": "CR_SUCCESS", "remark": None, "order": False, "autoCommit": True}
    scene.wait_count(11)


def test_PC7_a_consumer_tells_where_it_stands(scene: Scene) -> None:
    [(client_id, table)] = scene.run("consume_status").items()  # type: ignore[attr-defined]
    assert client_id == scene.client_id
    assert sum(offset for name, offset in table.items() if name.startswith(scene.topic)) == 10


def test_OF5_how_far_a_group_has_come(scene: Scene) -> None:
    queues = scene.wait_committed()["queues"]
    assert sum(each["consumer"] for each in queues.values()) == 10
    assert all(each["last"] > 1_600_000_000_000 for each in queues.values())


def test_OF4_the_clients_of_a_group_are_told_to_go_back(scene: Scene) -> None:
    """By 4.x always; by 5.x where it does not do it itself."""

    scene.wait_committed()
    [broker] = scene.cluster.brokers
    with _set(broker.address, "useServerSideResetOffset", "false", "true"):
        told = scene.run("reset_clients", timestamp=0)
        assert told == {f"{scene.topic}:0": 0, f"{scene.topic}:1": 0}
        scene.wait_count(20)
    scene.wait_committed()


def test_the_commands_of_mqadmin_show_it(scene: Scene, apache: Apache) -> None:
    where = {"n": scene.cluster.namesrv, "g": scene.group}
    said = scene.admin.mqadmin("consumerStatus", **where, i=scene.client_id)
    assert "#Consumer Subscription#" in said
    assert scene.topic in said
    scene.wait_committed()
    progress = scene.admin.mqadmin("consumerProgress", **where)
    assert "Consume TPS" in progress
    assert scene.topic in progress
    if apache.version != OLDER:  # where an option that it does not know ends the JVM
        where["t"] = scene.topic
    directly = scene.admin.mqadmin("queryMsgById", **where, i=scene.ids[0], d=scene.client_id)
    assert "CR_SUCCESS" in directly
    scene.wait_count(11)


@contextmanager
def _set(address: str, key: str, value: str, after: str) -> Iterator[None]:
    answer = probe.call(address, UPDATE_BROKER_CONFIG, {}, f"{key}={value}".encode())
    assert answer.code == 0, answer
    try:
        yield
    finally:
        probe.call(address, UPDATE_BROKER_CONFIG, {}, f"{key}={after}".encode())


@pytest.mark.one_line("5.3.3", "a consumer that fails is asked the same by both lines")
def test_PC7_what_a_listener_says_travels(
    apache_cluster: Cluster, apache_admin: JavaAdmin, apache: Apache, fresh_name: Callable[[str], str]
) -> None:
    topic, group = fresh_name("Fails"), fresh_name("fails-group")
    apache_cluster.create_topic(topic, queues=1)
    outcome: object = None

    def listener(message: MessageExt) -> object:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    sent = java_produce(apache, apache_cluster.namesrv, topic, 1)
    with rocketpy.sync.PushConsumer(group, namesrv=apache_cluster.namesrv) as consumer:
        consumer.subscribe(topic, listener)
        consumer.wait_assigned(20)
        ask = {"group": group, "topic": topic, "client": consumer.status().client_id}
        ask["id"] = sent.results[0]["offsetMsgId"]
        outcome = ConsumeResult.RETRY
        assert apache_admin.run("consume_directly", **ask)["result"] == "CR_LATER"
        outcome = ValueError("no")
        assert apache_admin.run("consume_directly", **ask)["result"] == "CR_THROW_EXCEPTION"
        consumer.unsubscribe(topic)
        with pytest.raises(InteropError, match="does not subscribe"):
            apache_admin.run("consume_directly", **ask)
        with pytest.raises(InteropError, match="not online"):
            apache_admin.run("consume_directly", **ask | {"client": "nobody"})


def test_OR3_java_consumes_in_order_on_our_broker(
    apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str]
) -> None:
    """Two members share locked queues; a queue moves to the other when its holder leaves."""
    topic, group = fresh_name("Locked"), fresh_name("locked-group")
    our_servers.create_topic(topic, queues=4)
    options = {"orderly": True, "threads": 4}
    with java_push_consumer(apache, our_servers.namesrv, group, topic, instance="one", **options) as one:
        with java_push_consumer(apache, our_servers.namesrv, group, topic, instance="two", **options) as two:
            one.wait_share(topic, 2)
            two.wait_share(topic, 2)
            java_produce(apache, our_servers.namesrv, topic, 40)
            probe.eventually(
                lambda: len(one.messages) + len(two.messages) >= 40 or None, "all messages, by both members", 60.0
            )
            for member in (one, two):
                assert member.messages
            two.finish()  # one that is killed unlocks nothing, and its locks end a minute later
        one.wait_share(topic, 4)
        before = len(one.messages)
        java_produce(apache, our_servers.namesrv, topic, 40, first=40)
        one.wait_messages(before + 40)
    by_queue: dict[int, list[int]] = {}
    for message in one.messages[before:]:
        by_queue.setdefault(message["queueId"], []).append(message["queueOffset"])
    assert len(by_queue) == 4
    assert all(offsets == sorted(offsets) for offsets in by_queue.values())
