"""Subscriptions by SQL92 across the border: Apache's consumer on our broker, and ours on Apache's.

`stores/test_handover.py` hands the file of the filters over.
"""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

import rocketpy
from rocketpy import ConsumeFromWhere, FilterRefusedError
from tests.interop.drivers import java_produce, java_push_consumer
from tests.interop.failure import InteropError
from tests.interop.inbox import Inbox
from tests.interop.ours import our_broker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.apache import Apache, Cluster

pytestmark = [pytest.mark.interop, pytest.mark.waits("waits for servers and clients of other processes")]

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
EXPRESSION = "(TAGS = 'red' AND n > 3) OR shop IN ('north', 'south')"
TAGS_OR_RANGE = "(TAGS is not null and TAGS in ('TagA', 'TagB')) or (test is not null and test between 7 and 9)"
BIT_MAPS = {"enableCalcFilterBitMap": True, "enableConsumeQueueExt": True}


def send_some(apache: Apache, namesrv: str, topic: str) -> list[str]:
    """Send messages of four kinds, and return the bodies of those that the expression wants."""
    send = partial(java_produce, apache, namesrv, topic)
    send(3, first=0, tags="red", properties="n=3")
    send(3, first=10, tags="red", properties="n=4")
    send(3, first=20, tags="blue", properties="n=9,shop=north")
    send(3, first=30, tags="blue", properties="n=9")
    return sorted(f"body-{number}" for number in (10, 11, 12, 20, 21, 22))


def send_tags_or_range(apache: Apache, namesrv: str, topic: str) -> list[str]:
    """The same for the expression of Apache's own example: by tag, by a property, by both and by neither."""
    send = partial(java_produce, apache, namesrv, topic)
    send(2, first=0, tags="TagA", properties="test=1")
    send(2, first=10, tags="TagC", properties="test=7")
    send(2, first=20, tags="TagB", properties="test=9")
    send(2, first=30, tags="TagC", properties="test=10")
    send(2, first=40, properties="other=8")
    return sorted(f"body-{number}" for number in (0, 1, 10, 11, 20, 21))


CASES = [
    pytest.param(EXPRESSION, send_some, id="and, or"),
    pytest.param(TAGS_OR_RANGE, send_tags_or_range, id="tags or range"),
]


@pytest.mark.parametrize(("expression", "send"), CASES)
@pytest.mark.parametrize("overrides", [{}, BIT_MAPS], ids=["plain", "bit maps"])
def test_apaches_consumer_filters_at_our_broker(
    apache: Apache,
    our_servers: Cluster,
    fresh_name: Callable[[str], str],
    overrides: dict[str, object],
    expression: str,
    send: Callable[[Apache, str, str], list[str]],
) -> None:
    topic, name = fresh_name("Sql"), fresh_name("sql-broker")
    with our_broker(our_servers.namesrv, name=name, overrides={"enablePropertyFilter": True, **overrides}):
        our_servers.create_topic(topic, queues=2)
        with java_push_consumer(apache, our_servers.namesrv, fresh_name("sql"), topic, sql=expression) as consumer:
            wanted = send(apache, our_servers.namesrv, topic)
            consumer.wait("message", len(wanted))
            found = [
                base64.b64decode(each["body"]).decode() for each in consumer.finish() if each["event"] == "message"
            ]
    assert sorted(found) == wanted


def test_apaches_consumer_hears_from_our_broker_what_is_wrong(
    apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic = fresh_name("Sql")
    our_servers.create_topic(topic, queues=1)
    with (
        pytest.raises(InteropError, match="at character 4: the expression ends too early"),
        java_push_consumer(apache, our_servers.namesrv, fresh_name("sql"), topic, sql="n >"),
    ):
        pass


@pytest.mark.parametrize(("expression", "send"), CASES)
async def test_our_consumer_filters_at_apaches_broker(
    apache: Apache,
    apache_cluster: Cluster,
    fresh_name: Callable[[str], str],
    expression: str,
    send: Callable[[Apache, str, str], list[str]],
) -> None:
    topic, inbox = fresh_name("Sql"), Inbox()
    apache_cluster.create_topic(topic, queues=2)
    consumer = rocketpy.PushConsumer(fresh_name("sql"), namesrv=apache_cluster.namesrv, consume_from_where=FIRST)
    consumer.subscribe(topic, inbox.take, sql=expression)
    async with consumer:
        await consumer.wait_assigned(20)
        wanted = await trio.to_thread.run_sync(send, apache, apache_cluster.namesrv, topic)
        messages = await inbox.wait(len(wanted))
    assert sorted(message.body.decode() for message in messages) == wanted


async def test_our_consumer_hears_from_apaches_broker_what_is_wrong(
    apache_cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic = fresh_name("Sql")
    apache_cluster.create_topic(topic, queues=1)
    consumer = rocketpy.PushConsumer(fresh_name("sql"), namesrv=apache_cluster.namesrv)
    consumer.subscribe(topic, print, sql="n >")
    with pytest.raises(FilterRefusedError, match="correct the expression") as caught:
        await consumer.__aenter__()
    assert caught.value.code == 23
