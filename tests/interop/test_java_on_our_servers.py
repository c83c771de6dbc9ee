"""Apache's producer, push consumer and admin client on our name server and our broker."""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.interop import jvm, lines, probe
from tests.interop.drivers import java_produce, java_push_consumer
from tests.interop.failure import InteropError
from tests.interop.ours import our_broker
from tests.interop.ports import port_block
from tests.interop.settings import QUICK_RETRIES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interop.apache import Apache, Cluster
    from tests.interop.drivers import Event, JavaAdmin

pytestmark = pytest.mark.interop

QUERY_CONSUMER_OFFSET = 14
GET_MAX_OFFSET = 30
FLOOD = 20_000


@pytest.fixture
def admin(our_admin: JavaAdmin) -> JavaAdmin:
    return our_admin


def body(message: Event) -> str:
    return base64.b64decode(message["body"]).decode()


def bodies(messages: list[Event]) -> list[str]:
    return sorted(map(body, messages))


def numbered(first: int, last: int) -> list[str]:
    return sorted(f"body-{n}" for n in range(first, last))


def offset(broker: str, code: int, **fields: object) -> int:
    answer = probe.call(broker, code, fields)
    assert answer.code == 0, answer.remark
    return int(answer.fields["offset"])


# --- producing and consuming ---------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [(), jvm.ROCKETMQ_HEADERS], ids=["JSON", "ROCKETMQ"])
def test_a_java_pair_exchanges_messages_and_offsets_are_kept(
    apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str], headers: tuple[str, ...]
) -> None:
    topic, group = fresh_name("Pair"), fresh_name("pair-group")
    our_servers.create_topic(topic, queues=4)
    with java_push_consumer(apache, our_servers.namesrv, group, topic, jvm_options=headers) as consumer:
        assert len(consumer.share[topic]) == 4
        sent = java_produce(
            apache,
            our_servers.namesrv,
            topic,
            100,
            jvm_options=headers,
            keys="key-%d",
            tags="red,grün",
            properties="shop=nördlich",
        )
        messages = consumer.wait_messages(100)
        assert consumer.finish()[-1] == {"event": "stopped", "received": 100}
    results = {each["msgId"]: each for each in sent.results}
    assert {each["status"] for each in sent.results} == {"SEND_OK"}
    assert {each["msgId"] for each in messages} == set(results)
    assert bodies(messages) == numbered(0, 100)
    for each in messages:
        result = results[each["msgId"]]
        assert (each["queueId"], each["queueOffset"]) == (result["queueId"], result["queueOffset"])
        assert (each["keys"], each["tags"]) == (f"key-{result['number']}", ("red", "grün")[result["number"] % 2])
        assert each["properties"]["shop"] == "nördlich"
        assert each["bornTimestamp"] <= each["storeTimestamp"] + 1_000
    broker = our_servers.brokers[0].address
    for queue_id in range(4):
        end = offset(broker, GET_MAX_OFFSET, topic=topic, queueId=queue_id)
        reached = offset(broker, QUERY_CONSUMER_OFFSET, consumerGroup=group, topic=topic, queueId=queue_id)
        assert (end, reached) == (25, 25)


@pytest.mark.parametrize("mode", ["async", "batch", "oneway"])
def test_the_java_producer_sends_in_every_mode(
    apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str], mode: str
) -> None:
    topic = fresh_name(f"Mode-{mode}")
    our_servers.create_topic(topic, queues=1)
    java_produce(apache, our_servers.namesrv, topic, 25, mode=mode, batch_size=10, body_size=64)
    broker = our_servers.brokers[0].address

    def all_there() -> bool | None:
        return offset(broker, GET_MAX_OFFSET, topic=topic, queueId=0) == 25 or None

    assert probe.eventually(all_there, "25 messages", 20.0)


def test_java_compresses_and_shards_and_delays(
    apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group, namesrv = fresh_name("Shapes"), fresh_name("shapes-group"), our_servers.namesrv
    our_servers.create_topic(topic, queues=4)
    with java_push_consumer(apache, namesrv, group, topic) as consumer:
        java_produce(apache, namesrv, topic, 3, body_size=20_000, sharding_key="one")
        java_produce(apache, namesrv, topic, 3, first=3, delay_level=1, mode="async")
        messages = sorted(consumer.wait_messages(6), key=body)
        consumer.finish()
    large, delayed = messages[:3], messages[3:]
    assert [len(body(each)) for each in large] == [20_000] * 3
    assert {each["sysFlag"] for each in large} == {lines.of(apache.version).unpacked_flag}
    assert len({each["queueId"] for each in large}) == 1
    assert bodies(delayed) == numbered(3, 6)
    assert all(each["storeTimestamp"] - each["bornTimestamp"] >= 900 for each in delayed)


def test_a_message_that_java_refuses_comes_back_to_it(
    apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group = fresh_name("Refused"), fresh_name("refusing-group")
    our_servers.create_topic(topic, queues=1)
    with java_push_consumer(apache, our_servers.namesrv, group, topic, fail_first=1) as consumer:
        java_produce(apache, our_servers.namesrv, topic, 2, tags="red", keys="key-%d")
        messages = consumer.wait_messages(4)
        consumer.finish()
    tries = sorted((body(each), each["reconsumeTimes"], each["accepted"]) for each in messages)
    assert tries == [("body-0", 0, False), ("body-0", 1, True), ("body-1", 0, False), ("body-1", 1, True)]
    # Apache's consumer puts the topic and the id of the first attempt back.
    assert {each["topic"] for each in messages} == {topic}
    assert len({each["msgId"] for each in messages}) == 2
    assert {each["tags"] for each in messages} == {"red"}


def test_java_gives_up_and_the_message_lies_among_the_dead(
    apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group = fresh_name("Dead"), fresh_name("dead-group")
    our_servers.create_topic(topic, queues=1)
    dead = f"%DLQ%{group}"
    with java_push_consumer(
        apache, our_servers.namesrv, group, topic, fail_first=99, max_reconsume=1, retry_level=1
    ) as consumer:
        java_produce(apache, our_servers.namesrv, topic, 1)
        consumer.wait_messages(2)
        broker = our_servers.brokers[0].address
        assert probe.eventually(
            lambda: offset(broker, GET_MAX_OFFSET, topic=dead, queueId=0) == 1 or None, "a dead letter", 20.0
        )
        assert len(consumer.finish()) >= 2
        assert [each["reconsumeTimes"] for each in consumer.messages] == [0, 1]


def test_java_consumes_only_the_tags_it_subscribes(
    apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group = fresh_name("Tags"), fresh_name("tags-group")
    our_servers.create_topic(topic, queues=2)
    with java_push_consumer(apache, our_servers.namesrv, group, topic, tags="Aa || red") as consumer:
        # "BB" has the hash of "Aa": our broker lets it through, and Apache's client sorts it out.
        java_produce(apache, our_servers.namesrv, topic, 12, tags="Aa,BB,red,blue")
        messages = consumer.wait_messages(6)
        assert consumer.finish()[-1]["received"] == 6
    assert sorted(each["tags"] for each in messages) == ["Aa"] * 3 + ["red"] * 3


def test_two_java_consumers_share_and_the_one_that_stays_takes_over(
    apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group, namesrv = fresh_name("Shared"), fresh_name("sharing-group"), our_servers.namesrv
    our_servers.create_topic(topic, queues=4)
    with (
        java_push_consumer(apache, namesrv, group, topic) as first,
        java_push_consumer(apache, namesrv, group, topic) as second,
    ):
        shares = [set(each.wait_share(topic, 2)) for each in (first, second)]
        assert not shares[0] & shares[1]
        java_produce(apache, namesrv, topic, 40)
        probe.eventually(lambda: len(first.messages) + len(second.messages) >= 40 or None, "40 messages", 30.0)
        second.finish()
        assert {len(first.messages), len(second.messages)} == {20}
        assert bodies(first.messages + second.messages) == numbered(0, 40)
        first.wait_share(topic, 4)
        java_produce(apache, namesrv, topic, 8, first=40)
        first.wait_messages(28)
        assert first.finish()[-1]["received"] == 28


def test_a_java_consumer_that_is_started_again_goes_on_where_it_stopped(
    apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group, namesrv = fresh_name("Again"), fresh_name("again-group"), our_servers.namesrv
    our_servers.create_topic(topic, queues=2)
    for first in (0, 10):
        java_produce(apache, namesrv, topic, 10, first=first)
        with java_push_consumer(apache, namesrv, group, topic) as consumer:
            messages = consumer.wait_messages(10)
            assert consumer.finish()[-1] == {"event": "stopped", "received": 10}
        assert bodies(messages) == numbered(first, first + 10)


@pytest.mark.one_line("5.3.3", "a question of the load, which both lines make alike")
def test_a_flood_arrives_once(apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str]) -> None:
    topic, group, namesrv = fresh_name("Flood"), fresh_name("flood-group"), our_servers.namesrv
    our_servers.create_topic(topic, queues=8)
    with java_push_consumer(apache, namesrv, group, topic, quiet=True, batch=32) as consumer:
        java_produce(apache, namesrv, topic, FLOOD, mode="async", window=256, body_size=200, quiet=True)
        broker = our_servers.brokers[0].address

        def reached() -> bool | None:
            fields = {"consumerGroup": group, "topic": topic}
            ends = [offset(broker, QUERY_CONSUMER_OFFSET, **fields, queueId=queue_id) for queue_id in range(8)]
            return sum(ends) == FLOOD or None

        probe.eventually(reached, f"{FLOOD} messages consumed and committed", 60.0)
        assert consumer.finish()[-1]["received"] == FLOOD


def test_java_goes_on_when_our_broker_is_started_again(
    apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic, group, namesrv = fresh_name("Restarted"), fresh_name("restarted-group"), our_servers.namesrv
    with port_block() as port:
        again = partial(
            our_broker, namesrv, name="broker-again", home=tmp_path, overrides={"listenPort": port, **QUICK_RETRIES}
        )
        with again() as broker:
            probe.create_topic(broker.address, topic, queues=2)
            probe.wait_route(namesrv, topic)
            with java_push_consumer(apache, namesrv, group, topic) as consumer:
                java_produce(apache, namesrv, topic, 10)
                consumer.wait_messages(10)
                assert broker.process.stop() == 0
                with again():
                    probe.wait_route(namesrv, topic)
                    java_produce(apache, namesrv, topic, 10, first=10)
                    messages = consumer.wait_messages(20)
                    assert consumer.finish()[-1]["received"] == 20
    assert bodies(messages) == numbered(0, 20)


# --- looking after it ----------------------------------------------------------------------------------


def test_javas_admin_creates_lists_routes_and_deletes_a_topic(
    our_servers: Cluster, admin: JavaAdmin, fresh_name: Callable[[str], str]
) -> None:
    topic = fresh_name("Made")
    assert admin.run("create_topic", topic=topic, queues=3) == ["broker-a"]
    probe.wait_route(our_servers.namesrv, topic)
    assert topic in admin.run("topics")
    route = admin.run("route", topic=topic)
    assert [(each["brokerName"], each["writeQueueNums"]) for each in route["queueDatas"]] == [("broker-a", 3)]
    address = our_servers.brokers[0].address
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": address}
    assert admin.run("cluster")["broker-a"]["addresses"] == {"0": address}
    admin.run("delete_topic", topic=topic)
    with pytest.raises(InteropError, match="MQClientException"):
        admin.run("route", topic=topic)


def test_javas_admin_searches_and_sets_offsets(
    apache: Apache, our_servers: Cluster, admin: JavaAdmin, fresh_name: Callable[[str], str]
) -> None:
    topic, group = fresh_name("Searched"), fresh_name("searched-group")
    our_servers.create_topic(topic, queues=1)
    java_produce(apache, our_servers.namesrv, topic, 5)
    queue = {"topic": topic, "broker": "broker-a", "queueId": 0}
    assert admin.run("queue_ends", **queue) == {"min": 0, "max": 5}
    assert admin.run("search_offset", **queue, timestamp=0) == 0
    assert admin.run("search_offset", **queue, timestamp=9_999_999_999_999) == 5
    admin.run("create_group", group=group)
    admin.run("commit", **queue, group=group, offset=3)
    reached = offset(our_servers.brokers[0].address, QUERY_CONSUMER_OFFSET, consumerGroup=group, topic=topic, queueId=0)
    assert reached == 3


def test_javas_admin_reads_the_brokers_state(our_servers: Cluster, admin: JavaAdmin) -> None:
    state = admin.run("broker", address=our_servers.brokers[0].address)
    assert state["config"]["brokerName"] == "broker-a"
    assert state["runtime"]["brokerVersionDesc"] == "V5_3_3"
