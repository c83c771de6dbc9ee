"""The entries of consume queues as tools look at them."""

from __future__ import annotations

import json

import pytest
from trio.testing import MockClock

from rocketpy.wire.bodies.consume_queue import QueryConsumeQueueResponseBody
from rocketpy.wire.bodies.subscription import SubscriptionData
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.java_hash import string_hash
from tests.broker_sim.broker.kit import Client, broker_and_client, heartbeat


async def entries(client: Client, index: int = 0, count: int = 10, **more: str) -> QueryConsumeQueueResponseBody:
    fields = {"topic": "T", "queueId": "0", "index": str(index), "count": str(count), **more}
    answer = await client.ask(RequestCode.QUERY_CONSUME_QUEUE, fields)
    assert answer.code == 0, answer.remark
    return QueryConsumeQueueResponseBody.decode(answer.body)


async def test_A7_entries_say_where_messages_are(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        for number in range(150):
            await client.send(properties=f"TAGS\x01t{number % 3}\x02")
        found = await entries(client, 100, 20)
        assert (found.min_queue_index, found.max_queue_index) == (0, 150)
        assert found.queue_data is not None
        assert len(found.queue_data) == 20
        assert found.queue_data[0].tags_code == string_hash("t1")
        assert found.queue_data[0].physic_offset == broker.store.reads.position("T", 0, 100)
        assert found.queue_data[0].physic_size == len(broker.store.reads.read(found.queue_data[0].physic_offset) or b"")
        assert found.subscription_data is found.filter_data is None
        assert len((await entries(client, 10, 1000)).queue_data or ()) == 140
        assert (await entries(client, 150)).queue_data == (await entries(client, 9999)).queue_data == []
        assert (await entries(client, 0, 0)).queue_data == []


async def test_A7_entries_say_what_a_group_would_get(autojump_clock: MockClock) -> None:
    settings = {"enable_property_filter": True, "enable_calc_filter_bit_map": True, "enable_consume_queue_ext": True}
    async with broker_and_client(**settings) as (_, client):
        assert (await entries_of_group(client, "g")) is None
        data = heartbeat("g", "T")
        data.consumer_data_set[0].subscription_data_set = [
            SubscriptionData(topic="T", sub_string="a = 1", expression_type="SQL92", sub_version=1)
        ]
        await client.ask(RequestCode.HEART_BEAT, body=data.encode())
        for value in (1, 2):
            await client.send(properties=f"a\x01{value}\x02")
        found = await entries_of_group(client, "g")
        assert found is not None
        assert found.subscription_data is not None
        assert json.loads(found.filter_data or "")["expression"] == "a = 1"
        wanted, *others = found.queue_data or []
        assert wanted.eval
        assert json.loads(wanted.extend_data_json or "")["tagsCode"] == wanted.tags_code == 0
        assert set(wanted.bit_map or "") == {"0", "1", "\n"}
        assert not any(each.eval for each in others)
        offline = await entries_of_group(client, "away")
        assert offline is not None
        assert offline.filter_data == "away@T is not online!"


async def entries_of_group(client: Client, group: str) -> QueryConsumeQueueResponseBody | None:
    fields = {"topic": "T", "queueId": "0", "index": "0", "count": "10", "consumerGroup": group}
    answer = await client.ask(RequestCode.QUERY_CONSUME_QUEUE, fields)
    return None if answer.code else QueryConsumeQueueResponseBody.decode(answer.body)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "nowhere"}, ResponseCode.SYSTEM_ERROR),
        ({"queueId": "9"}, ResponseCode.SYSTEM_ERROR),
        ({"queueId": "-1"}, ResponseCode.INVALID_PARAMETER),
        ({"index": "-1"}, ResponseCode.INVALID_PARAMETER),
        ({"count": "-1"}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "../x"}, ResponseCode.INVALID_PARAMETER),
        ({"consumerGroup": "a b"}, ResponseCode.INVALID_PARAMETER),
    ],
)
async def test_A7_entries_that_cannot_be_are_refused(
    autojump_clock: MockClock, fields: dict[str, str], code: ResponseCode
) -> None:
    async with broker_and_client() as (_, client):
        await client.send()
        whole = {"topic": "T", "queueId": "0", "index": "0", "count": "10", **fields}
        assert (await client.ask(RequestCode.QUERY_CONSUME_QUEUE, whole)).code == code
