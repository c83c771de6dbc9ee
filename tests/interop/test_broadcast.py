"""Consumers that broadcast, Apache's and ours: both get all, and each goes on where the other's file says."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from rocketpy import ConsumeFromWhere, Message, MessageModel
from tests.interop import jobs
from tests.interop.drivers import java_push_consumer
from tests.interop.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interop.apache import Apache, Cluster
    from tests.interop.drivers import JavaPushConsumer

pytestmark = pytest.mark.interop


@pytest.fixture(params=["apache_cluster", "our_servers"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(request.param)
    return found


def send(cluster: Cluster, topic: str, first: int, last: int) -> list[str]:
    bodies = [f"body-{number}" for number in range(first, last)]
    with rocketpy.sync.Producer("broadcasting", namesrv=cluster.namesrv, send_timeout=10.0) as producer:
        for body in bodies:
            producer.send(Message(topic, body.encode()))
    return sorted(bodies)


def java_bodies(consumer: JavaPushConsumer) -> list[str]:
    return sorted(base64.b64decode(each["body"]).decode() for each in consumer.messages)


def ours(cluster: Cluster, group: str, folder: Path, **fields: object) -> rocketpy.sync.PushConsumer:
    return rocketpy.sync.PushConsumer(
        group,
        namesrv=cluster.namesrv,
        message_model=MessageModel.BROADCASTING,
        local_offset_store_dir=folder,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        **fields,
    )


def files(folder: Path, group: str) -> list[Path]:
    """The files of a group, in a directory that others use too."""
    return [file for file in folder.rglob("offsets.json") if group in file.relative_to(folder).parts]


def consumed(consumer: rocketpy.sync.PushConsumer, topic: str, count: int) -> list[str]:
    inbox = Inbox()
    consumer.subscribe(topic, inbox.take)
    with consumer:
        inbox.wait_here(count)
    return sorted(message.body.decode() for message in inbox.messages)


def test_BC1_apaches_and_ours_go_on_where_the_file_of_the_other_says(
    apache: Apache, cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group = fresh_name("Everywhere"), fresh_name("everywhere-group")
    cluster.create_topic(topic, queues=3)
    folder = jobs.broadcast_offsets(apache)
    java = {"broadcast": "true", "instance": "DEFAULT"}
    with java_push_consumer(apache, cluster.namesrv, group, topic, **java) as consumer:
        first = send(cluster, topic, 0, 12)
        consumer.wait_messages(12)
        assert java_bodies(consumer) == first
        consumer.finish()
    (file,) = files(folder, group)

    second = send(cluster, topic, 12, 24)
    assert consumed(ours(cluster, group, folder), topic, 12) == second
    assert files(folder, group) == [file]

    third = send(cluster, topic, 24, 36)
    with java_push_consumer(apache, cluster.namesrv, group, topic, **java) as consumer:
        consumer.wait_messages(12)
        assert java_bodies(consumer) == third
        consumer.finish()  # the next one in this JVM with this instance must not find its client


def test_BC1_apaches_and_ours_side_by_side_both_get_all(
    apache: Apache, cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group, inbox = fresh_name("Everywhere"), fresh_name("everywhere-group"), Inbox()
    cluster.create_topic(topic, queues=3)
    consumer = ours(cluster, group, jobs.broadcast_offsets(apache), instance_name="ours")
    consumer.subscribe(topic, inbox.take)
    with consumer, java_push_consumer(apache, cluster.namesrv, group, topic, broadcast="true") as java:
        sent = send(cluster, topic, 0, 12)
        java.wait_messages(12)
        inbox.wait_here(12)
        assert java_bodies(java) == sorted(message.body.decode() for message in inbox.messages) == sent
