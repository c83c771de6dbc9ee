"""Messages that linger to be sent in batches: ours on Apache's brokers, and Java's autoBatch on ours."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from rocketpy import Message, SendStatus
from rocketpy.wire.message_codec import decode_messages
from tests.interop import probe
from tests.interop.async_surfaces import ASYNC_SURFACES, entered, loop_of
from tests.interop.drivers import java_produce, java_push_consumer
from tests.interop.questions import PULL, pull

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.apache import Apache, Cluster

pytestmark = pytest.mark.interop

COUNT = 1000


def test_S17_javas_consumer_gets_our_messages_where_their_results_say(
    apache: Apache, apache_cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic = fresh_name("Linger")
    apache_cluster.create_topic(topic, queues=4)
    with (
        java_push_consumer(apache, apache_cluster.namesrv, fresh_name("linger"), topic) as consumer,
        rocketpy.sync.Producer("linger", namesrv=apache_cluster.namesrv, linger=0.01) as producer,
    ):
        producer.send(Message(topic, b"first"))
        futures = [
            producer.send_soon(Message(topic, b"%d" % n, tags=f"t{n % 3}", keys=[f"k{n}"], properties={"n": str(n)}))
            for n in range(COUNT)
        ]
        results = {result.message_id: result for result in (future.result() for future in futures)}
        messages = [each for each in consumer.wait_messages(COUNT + 1) if each["keys"] is not None]
    assert len(results) == len(messages) == COUNT
    assert {result.status for result in results.values()} == {SendStatus.SEND_OK}
    for message in messages:
        number = int(base64.b64decode(message["body"]))
        result = results[message["msgId"]]
        assert (message["queueId"], message["queueOffset"]) == (result.queue.queue_id, result.queue_offset)
        assert (message["tags"], message["keys"]) == (f"t{number % 3}", f"k{number}")
        assert message["properties"]["n"] == str(number)
    assert len({result.offset_message_id for result in results.values()}) == COUNT
    assert {result[5:] for result in results.values()} == {(None, "DefaultRegion", True, None)}


@pytest.mark.one_line("5.3.3", "the broker does the same for each surface; either line is asked by the blocking one")
@pytest.mark.parametrize("surface", ASYNC_SURFACES)
def test_S17_apaches_broker_stores_what_tasks_sent_in_batches_where_their_results_say(
    apache_cluster: Cluster, fresh_name: Callable[[str], str], surface: str
) -> None:
    topic = fresh_name("Linger")
    apache_cluster.create_topic(topic, queues=2)
    settings = {"namesrv": apache_cluster.namesrv, "linger": 0.01}
    with (
        loop_of(surface) as loop,
        entered(loop, surface, lambda module: module.Producer(fresh_name("linger"), **settings)) as producer,
    ):
        messages = [Message(topic, b"%d" % n, tags=f"t{n % 3}", keys=[f"k{n}"]) for n in range(COUNT)]
        sends = [loop.start_task_soon(producer.send, message) for message in messages]
        results = [send.result() for send in sends]
    assert {result.status for result in results} == {SendStatus.SEND_OK}
    places = {(result.queue.queue_id, result.queue_offset): n for n, result in enumerate(results)}
    assert len(places) == COUNT
    address, found = apache_cluster.brokers[0].address, 0
    for queue in range(2):
        offset = 0
        while (answer := probe.call(address, PULL, pull(topic, queueId=queue, queueOffset=offset))).code == 0:
            for message in decode_messages(answer.body):
                number = places[queue, message.queue_offset]
                assert (message.body, message.keys, message.message_id) == (
                    b"%d" % number,
                    (f"k{number}",),
                    results[number].message_id,
                )
                offset, found = message.queue_offset + 1, found + 1
    assert found == COUNT


@pytest.mark.one_line("5.3.3", "4.9.7 has no autoBatch")
@pytest.mark.parametrize("servers", ["apache_cluster", "our_servers"])
def test_S17_javas_automatic_batches_on_either_broker(
    apache: Apache, request: pytest.FixtureRequest, servers: str, fresh_name: Callable[[str], str]
) -> None:
    """Java puts an id and all keys of the batch behind those of each message, which either broker stores so."""
    cluster: Cluster = request.getfixturevalue(servers)
    topic = fresh_name("Auto")
    cluster.create_topic(topic, queues=4)
    with java_push_consumer(apache, cluster.namesrv, fresh_name("auto"), topic) as consumer:
        sent = java_produce(
            apache,
            cluster.namesrv,
            topic,
            COUNT,
            auto_batch=True,
            mode="async",
            window=256,
            tags="a,b",
            keys="key-%d",
        )
        messages = {(each["queueId"], each["queueOffset"]): each for each in consumer.wait_messages(COUNT)}
    assert len(messages) == len(sent.results) == COUNT
    for result in sent.results:
        message = messages[result["queueId"], result["queueOffset"]]
        assert base64.b64decode(message["body"]).decode() == f"body-{result['number']}"
        assert message["tags"] == "ab"[result["number"] % 2]
        assert f"key-{result['number']}" in message["keys"].split()
    assert len({result["offsetMsgId"] for result in sent.results}) == COUNT
    assert len({message["msgId"] for message in messages.values()}) < COUNT
