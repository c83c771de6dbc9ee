"""Headers in JSON and in the binary form, from clients and servers of both kinds that are set to either."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from rocketpy import ConsumeFromWhere, Message
from tests.interop import jvm, lines, probe
from tests.interop.drivers import java_produce, java_push_consumer
from tests.interop.inbox import Inbox
from tests.interop.mixed import APACHES, OURS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.apache import Apache, Cluster
    from tests.interop.mixed import Mixed

pytestmark = pytest.mark.interop

BOTH = (probe.JSON, probe.ROCKETMQ)
CLUSTER, BROKER_CONFIG = 106, 26
COUNT = 20


def encodings(name_server: str, broker: str) -> list[tuple[int, int]]:
    """What the two answer in to a request in JSON, and to one in the binary form."""
    return [
        (
            probe.call(name_server, CLUSTER, {"any": "größe"}, encoding=asked).encoding,
            probe.call(broker, BROKER_CONFIG, encoding=asked).encoding,
        )
        for asked in BOTH
    ]


def test_P3_in_which_form_servers_answer(
    apache: Apache, apache_cluster: Cluster, our_servers: Cluster, mixed: Mixed
) -> None:
    """5.x answers in the form that it is set to, 4.x and ours in that of the request."""
    as_asked = [(each, each) for each in BOTH]
    assert encodings(our_servers.namesrv, our_servers.brokers[0].address) == as_asked
    set_to_json = encodings(apache_cluster.namesrv, apache_cluster.brokers[0].address)
    set_to_binary = encodings(mixed.apache_namesrv, mixed.apache_broker)
    if lines.of(apache.version).answers_as_asked:
        assert (set_to_json, set_to_binary) == (as_asked, as_asked)
    else:
        assert (set_to_json, set_to_binary) == ([(probe.JSON,) * 2] * 2, [(probe.ROCKETMQ,) * 2] * 2)


@pytest.mark.parametrize("form", ["JSON", "ROCKETMQ"])
@pytest.mark.parametrize("kind", ["apache", "ours"])
def test_our_pair_speaks_either_form_with_servers_of_both_kinds(
    mixed: Mixed, fresh_name: Callable[[str], str], kind: str, form: str
) -> None:
    namesrv = mixed.apache_namesrv if kind == "apache" else mixed.our_namesrv
    topic, group, inbox = fresh_name("Form"), fresh_name("form-group"), Inbox()
    mixed.create_topic(topic)
    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    consumer = rocketpy.sync.PushConsumer(group, namesrv=namesrv, serialize_type=form, consume_from_where=first)
    consumer.subscribe(topic, inbox.take, tags="grün || red")
    with consumer, rocketpy.sync.Producer("form", namesrv=namesrv, serialize_type=form, send_timeout=10.0) as producer:
        assert len(consumer.wait_assigned(20)) == 4
        sent = [
            producer.send(Message(topic, b"%d" % n, tags=("grün", "red")[n % 2], properties={"größe": f"{n} µm"}))
            for n in range(COUNT)
        ]
        messages = inbox.wait_here(COUNT)
    assert {each.queue.broker_name for each in sent} == {APACHES, OURS}
    assert {(each.queue, each.queue_offset, each.message_id) for each in sent} == {
        (each.queue, each.queue_offset, each.message_id) for each in messages
    }
    for each in messages:
        assert each.properties["größe"] == f"{each.body.decode()} µm"


@pytest.mark.parametrize("headers", [(), jvm.ROCKETMQ_HEADERS], ids=["JSON", "ROCKETMQ"])
def test_javas_pair_speaks_either_form_with_servers_of_both_kinds(
    apache: Apache, mixed: Mixed, fresh_name: Callable[[str], str], headers: tuple[str, ...]
) -> None:
    topic, group = fresh_name("Form"), fresh_name("form-group")
    mixed.create_topic(topic)
    with java_push_consumer(apache, mixed.our_namesrv, group, topic, jvm_options=headers) as consumer:
        sent = java_produce(
            apache, mixed.apache_namesrv, topic, COUNT, jvm_options=headers, properties="size=größe"
        ).results
        messages = consumer.wait_messages(COUNT)
        assert consumer.finish()[-1]["received"] == COUNT
    assert {each["brokerName"] for each in sent} == {APACHES, OURS}
    assert {each["msgId"] for each in messages} == {each["msgId"] for each in sent}
    assert sorted(base64.b64decode(each["body"]).decode() for each in messages) == sorted(
        f"body-{n}" for n in range(COUNT)
    )
    assert {each["properties"]["size"] for each in messages} == {"größe"}
