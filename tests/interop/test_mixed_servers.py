"""Our broker beside Apache's at both name servers, Apache's and ours: one cluster, two views of it."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

import rocketpy.sync
from rocketpy import ConsumeFromWhere, Message, MessageQueue
from tests.interop import lines, probe
from tests.interop.drivers import java_produce, java_push_consumer
from tests.interop.inbox import Inbox
from tests.interop.mixed import APACHES, OURS
from tests.interop.ours import our_broker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.apache import Apache
    from tests.interop.lines import Line
    from tests.interop.mixed import Mixed

pytestmark = pytest.mark.interop

PUT_KV_CONFIG, GET_KV_CONFIG, DELETE_KV_CONFIG, KV_LIST = 100, 101, 102, 219
ROUTE, CLUSTER, TOPICS, TOPICS_OF_CLUSTER, SYSTEM_TOPICS = 105, 106, 206, 224, 304
UNIT_TOPICS, MEMBERS, REGISTER_TOPIC, DELETE_TOPIC = 311, 901, 217, 216


def body(message: dict[str, Any]) -> str:
    return base64.b64decode(message["body"]).decode()


def test_java_sends_through_either_name_server_to_either_broker(
    apache: Apache, mixed: Mixed, fresh_name: Callable[[str], str]
) -> None:
    topic, group = fresh_name("Mixed"), fresh_name("mixed-group")
    mixed.create_topic(topic)
    with java_push_consumer(apache, mixed.our_namesrv, group, topic) as consumer:
        assert len(consumer.share[topic]) == 4
        sent = [
            each
            for number, name_server in enumerate(mixed.name_servers)
            for each in java_produce(apache, name_server, topic, 20, first=20 * number).results
        ]
        messages = consumer.wait_messages(40)
        assert consumer.finish()[-1]["received"] == 40
    assert sorted(map(body, messages)) == sorted(f"body-{n}" for n in range(40))
    counts = {name: sum(each["brokerName"] == name for each in messages) for name in (APACHES, OURS)}
    assert counts == {APACHES: 20, OURS: 20}
    assert {each["msgId"] for each in messages} == {each["msgId"] for each in sent}


def test_our_pair_works_through_either_name_server_with_either_broker(
    mixed: Mixed, fresh_name: Callable[[str], str]
) -> None:
    topic, group, inbox = fresh_name("Mixed"), fresh_name("mixed-group"), Inbox()
    mixed.create_topic(topic)
    consumer = rocketpy.sync.PushConsumer(
        group, namesrv=mixed.apache_namesrv, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    )
    consumer.subscribe(topic, inbox.take)
    with consumer:
        assert len(consumer.wait_assigned(20)) == 4
        for name_server in mixed.name_servers:
            with rocketpy.sync.Producer("mixed-producer", namesrv=name_server, send_timeout=10.0) as producer:
                results = [producer.send(Message(topic, b"x", keys="key")) for _ in range(4)]
            assert sorted(each.queue for each in results) == sorted(
                MessageQueue(topic, name, queue_id) for name in (APACHES, OURS) for queue_id in (0, 1)
            )
        messages = inbox.wait_here(8)
    assert sorted((message.queue, message.queue_offset) for message in messages) == sorted(
        (MessageQueue(topic, name, queue_id), number)
        for name in (APACHES, OURS)
        for queue_id in (0, 1)
        for number in (0, 1)
    )


# --- the two name servers ------------------------------------------------------------------------------


def ask(mixed: Mixed, code: int, body: bytes = b"", **fields: object) -> tuple[probe.Answer, probe.Answer]:
    theirs, ours = (probe.call(each, code, fields, body) for each in mixed.name_servers)
    assert ours.code == theirs.code, (ours.remark, theirs.remark)
    assert dict(ours.fields) == dict(theirs.fields)
    return theirs, ours


def ordered(value: Any) -> Any:
    """Lists that are sets in Java have no order, and of the brokers any one may be named with the system topics."""
    if isinstance(value, dict):
        return {key: ordered(each) for key, each in value.items() if key != "brokerAddr"}
    if isinstance(value, list):
        return sorted((ordered(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


def known(value: Any, line: Line) -> Any:
    """A body of ours without the keys that the line does not know."""
    if isinstance(value, dict):
        return {key: known(each, line) for key, each in value.items() if key not in line.lacking_keys}
    return [known(each, line) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("standard_json", ["true", "false"])
def test_both_name_servers_tell_the_same_route(
    apache: Apache, mixed: Mixed, fresh_name: Callable[[str], str], standard_json: str
) -> None:
    topic, line = fresh_name("Routed"), lines.of(apache.version)
    mixed.create_topic(topic)
    theirs, ours = ask(mixed, ROUTE, topic=topic, acceptStandardJsonOnly=standard_json)
    assert ordered(known(ours.json(), line)) == ordered(theirs.json())
    assert {each["brokerName"] for each in ours.json()["brokerDatas"]} == {APACHES, OURS}
    assert len(ours.body) == len(theirs.body) or line.lacking_keys


def test_both_name_servers_tell_the_same_of_the_cluster(apache: Apache, mixed: Mixed) -> None:
    line = lines.of(apache.version)
    theirs, ours = ask(mixed, CLUSTER)
    assert ordered(known(ours.json(), line)) == ordered(theirs.json())
    cluster = next(iter(ours.json()["clusterAddrTable"]))
    for code, fields in (
        (TOPICS, {}),
        (TOPICS_OF_CLUSTER, {"cluster": cluster}),
        (TOPICS_OF_CLUSTER, {"cluster": "no-cluster"}),
        (SYSTEM_TOPICS, {}),
        (UNIT_TOPICS, {}),
        (MEMBERS, {"clusterName": cluster, "brokerName": OURS}),
    ):
        if code in line.unanswered:
            continue  # test_same_name_servers says so
        theirs, ours = ask(mixed, code, **fields)
        assert ordered(ours.json()) == ordered(theirs.json()), (code, fields)


def test_both_name_servers_keep_pairs(mixed: Mixed) -> None:
    ask(mixed, PUT_KV_CONFIG, namespace="interop", key="größe", value="3 µm")
    theirs, ours = ask(mixed, GET_KV_CONFIG, namespace="interop", key="größe")
    assert ours.fields["value"] == "3 µm"
    theirs, ours = ask(mixed, KV_LIST, namespace="interop")
    assert ours.json() == theirs.json() == {"table": {"größe": "3 µm"}}
    ask(mixed, DELETE_KV_CONFIG, namespace="interop", key="größe")
    assert ask(mixed, GET_KV_CONFIG, namespace="interop", key="größe")[1].code == 22


@pytest.mark.one_line("5.3.3", "registering a topic alone came with 5.x")
def test_both_name_servers_take_a_topic_alone(mixed: Mixed, fresh_name: Callable[[str], str]) -> None:
    topic = fresh_name("Alone")
    queues = {"perm": 6, "readQueueNums": 3, "writeQueueNums": 2, "topicSysFlag": 0}

    def register(*brokers: str) -> None:
        body = {"brokerDatas": [], "queueDatas": [{"brokerName": name, **queues} for name in brokers]}
        ask(mixed, REGISTER_TOPIC, json.dumps(body).encode(), topic=topic)

    register(APACHES, "no-broker")
    assert ask(mixed, ROUTE, topic=topic)[1].code == probe.TOPIC_NOT_EXIST
    register(APACHES, OURS)
    theirs, ours = ask(mixed, ROUTE, topic=topic)
    assert ordered(ours.json()) == ordered(theirs.json())
    assert {each["brokerName"] for each in ours.json()["queueDatas"]} == {APACHES, OURS}
    ask(mixed, DELETE_TOPIC, topic=topic)
    assert ask(mixed, ROUTE, topic=topic)[1].code == probe.TOPIC_NOT_EXIST


def test_a_broker_that_goes_leaves_both_name_servers(mixed: Mixed) -> None:
    with our_broker(";".join(mixed.name_servers), name="broker-leaving"):
        for name_server in mixed.name_servers:
            assert "broker-leaving" in probe.broker_addresses(name_server)
    for name_server in mixed.name_servers:
        assert probe.eventually(
            lambda name_server=name_server: "broker-leaving" not in probe.broker_addresses(name_server) or None,
            "end of broker-leaving",
            5.0,
        )


def test_both_name_servers_take_the_topics_of_a_broker_out_of_service(
    mixed: Mixed, fresh_name: Callable[[str], str]
) -> None:
    """WIPE_WRITE_PERM_OF_BROKER and its opposite."""
    topic = fresh_name("Wiped")
    mixed.create_topic(topic)

    def permissions(name_server: str) -> dict[str, int]:
        found = probe.route(name_server, topic)
        assert found is not None
        return {each["brokerName"]: each["perm"] for each in found["queueDatas"]}

    _, ours = ask(mixed, 205, brokerName=APACHES)
    assert int(ours.fields["wipeTopicCount"]) > 0
    assert [permissions(each) for each in mixed.name_servers] == [{APACHES: 4, OURS: 6}] * 2
    ask(mixed, 327, brokerName=APACHES)
    assert [permissions(each) for each in mixed.name_servers] == [{APACHES: 6, OURS: 6}] * 2
