"""The asyncio surface on Apache's servers, with Apache's producer and consumer at the other end."""

from __future__ import annotations

import asyncio
import base64
from functools import partial
from typing import TYPE_CHECKING

import pytest

import rocketpy.aio
from rocketpy.aio import ConsumeFromWhere, ConsumeResult, Message, MessageExt
from tests.aio.running import in_asyncio
from tests.interop.drivers import java_produce, java_push_consumer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.apache import Apache, Cluster

pytestmark = pytest.mark.interop

COUNT = 100
SECONDS = 30.0


@in_asyncio
async def test_javas_messages_come_to_a_listener_in_the_users_loop(
    apache: Apache, apache_cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, namesrv, done = fresh_name("To-asyncio"), apache_cluster.namesrv, asyncio.Event()
    apache_cluster.create_topic(topic, queues=4)
    got: list[MessageExt] = []
    loop = asyncio.get_running_loop()

    async def listen(message: MessageExt) -> ConsumeResult:
        assert asyncio.get_running_loop() is loop
        if message.body == b"body-0" and not message.reconsume_times:
            return ConsumeResult.RETRY
        got.append(message)
        if len(got) == COUNT:
            done.set()
        return ConsumeResult.SUCCESS

    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    consumer = rocketpy.aio.PushConsumer(fresh_name("asyncio-group"), namesrv=namesrv, consume_from_where=first)
    consumer.subscribe(topic, listen)
    async with consumer:
        assert len(await consumer.wait_assigned(20)) == 4
        sent = await asyncio.to_thread(partial(java_produce, apache, namesrv, topic, COUNT, tags="größe"))
        async with asyncio.timeout(SECONDS):
            await done.wait()
    assert {message.message_id for message in got} == {each["msgId"] for each in sent.results}
    assert {message.tags for message in got} == {"größe"}
    assert sorted(message.reconsume_times for message in got) == [0] * (COUNT - 1) + [1]


@in_asyncio
async def test_many_sends_at_once_come_to_javas_consumer(
    apache: Apache, apache_cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, group, namesrv = fresh_name("From-asyncio"), fresh_name("from-asyncio"), apache_cluster.namesrv
    apache_cluster.create_topic(topic, queues=4)
    with java_push_consumer(apache, namesrv, group, topic) as java:
        async with rocketpy.aio.Producer("from-asyncio", namesrv=namesrv, send_timeout=10.0) as producer:
            results = await asyncio.gather(*(producer.send(Message(topic, b"%d" % n)) for n in range(COUNT)))
        messages = await asyncio.to_thread(java.wait_messages, COUNT)
        java.finish()
    by_id = {each["msgId"]: each for each in messages}
    assert by_id.keys() == {result.message_id for result in results}
    for number, result in enumerate(results):
        each = by_id[result.message_id]
        assert base64.b64decode(each["body"]) == b"%d" % number
        place = each["topic"], each["brokerName"], each["queueId"], each["queueOffset"]
        assert place == (*result.queue, result.queue_offset)
