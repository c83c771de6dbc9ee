"""Bodies packed with lz4 and zstd, from our producer to Apache's consumer and back. The 4.x line knows zlib only."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from rocketpy import ConsumeFromWhere, Message
from tests.interop.drivers import java_produce, java_push_consumer
from tests.interop.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.apache import Apache, Cluster

pytestmark = [pytest.mark.interop, pytest.mark.one_line("5.3.3", "lz4 and zstd came with 5.x")]

TOPIC = "Packed-by-python"
BODIES = [b"all work and no play " * 300, bytes(range(256)) * 8000]
"""Small enough for one block of the usual 64 KiB, and far larger."""


def test_every_kind_is_unpacked_by_apaches_consumer(apache: Apache, apache_cluster: Cluster) -> None:
    apache_cluster.create_topic(TOPIC)
    namesrv = apache_cluster.namesrv
    with java_push_consumer(apache, namesrv, "packed-by-python", TOPIC) as consumer:
        for kind in ("LZ4", "ZSTD", "ZLIB"):
            with rocketpy.sync.Producer("packers", namesrv=namesrv, send_timeout=10.0, compress_type=kind) as producer:
                for number, body in enumerate(BODIES):
                    producer.send(Message(TOPIC, body, keys=f"{kind}-{number}"))
        got = {each["keys"]: base64.b64decode(each["body"]) for each in consumer.wait_messages(6)}
    assert got == {f"{kind}-{n}": body for kind in ("LZ4", "ZSTD", "ZLIB") for n, body in enumerate(BODIES)}


def test_every_kind_of_apaches_producer_is_unpacked_by_our_consumer(
    apache: Apache, apache_cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, namesrv, inbox = fresh_name("Packed-by-java"), apache_cluster.namesrv, Inbox()
    apache_cluster.create_topic(topic)
    for kind in ("LZ4", "ZSTD"):
        options = (f"-Drocketmq.message.compressType={kind}",)
        java_produce(apache, namesrv, topic, 2, jvm_options=options, keys=kind, body_size=300_000)
    consumer = rocketpy.sync.PushConsumer(
        fresh_name("packed-by-java"), namesrv=namesrv, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    )
    consumer.subscribe(topic, inbox.take)
    with consumer:
        messages = inbox.wait_here(4)
    assert {message.store_size < 10_000 for message in messages} == {True}
    assert sorted((message.keys, message.body) for message in messages) == [
        ((kind,), body.ljust(300_000, b".")) for kind in ("LZ4", "ZSTD") for body in (b"body-0", b"body-1")
    ]
