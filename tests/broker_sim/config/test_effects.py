"""Keys that are said to be honoured do what they say; those that other tests turn are not turned again."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.seams import wall_clock
from rocketpy.wire.bodies.heartbeat import HeartbeatData
from rocketpy.wire.bodies.route import KVTable, TopicRouteData
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.enums import ConsumeType
from rocketpy.wire.headers.route import PutKVConfigRequestHeader
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import broker_and_client, heartbeat
from tests.broker_sim.namesrv.test_server import body, register, running
from tests.virtual_time import loop_time


def pulling_by_hand() -> HeartbeatData:
    data = heartbeat("g", "T")
    for consumer in data.consumer_data_set:
        consumer.consume_type = ConsumeType.CONSUME_ACTIVELY
    return data


@pytest.mark.parametrize(("rejects", "code"), [(True, ResponseCode.SUBSCRIPTION_NOT_EXIST), (False, 0)])
async def test_reject_pull_consumer_enable(autojump_clock: MockClock, rejects: bool, code: int) -> None:
    async with broker_and_client(reject_pull_consumer_enable=rejects) as (_, client):
        await client.send()
        await client.ask(RequestCode.HEART_BEAT, body=pulling_by_hand().encode())
        assert (await client.pull(consumer_group="g", sys_flag=0)).code == code


@pytest.mark.parametrize(("reads", "suggested"), [(True, "1"), (False, "0")])
async def test_slave_read_enable(autojump_clock: MockClock, reads: bool, suggested: str) -> None:
    async with broker_and_client(slave_read_enable=reads, memory_size=0) as (_, client):
        for _ in range(20):
            await client.send(body=bytes(1000))
        assert (await client.pull()).ext_fields["suggestWhichBrokerId"] == suggested


async def test_start_accept_send_request_time_stamp(autojump_clock: MockClock) -> None:
    with wall_clock(loop_time(1_000_000)):
        async with broker_and_client(start_accept_send_request_time_stamp=1_010_000) as (_, client):
            assert (await client.send()).code == ResponseCode.SYSTEM_ERROR
            await trio.sleep(10)
            assert (await client.send()).code == 0


@pytest.mark.parametrize("enabled", [True, False])
async def test_trace_topic_enable_and_its_name(autojump_clock: MockClock, enabled: bool) -> None:
    async with broker_and_client(trace_topic_enable=enabled, msg_trace_topic_name="traces") as (broker, _):
        assert (broker.topics.get("traces") is not None) == enabled


@pytest.mark.parametrize(("bound", "messages"), [({"bytes": 3000}, 2), ({"count": 3}, 3)])
async def test_what_one_answer_may_take_from_the_disk(
    autojump_clock: MockClock, bound: dict[str, int], messages: int
) -> None:
    settings = {f"max_transfer_{name}_on_message_in_disk": value for name, value in bound.items()}
    async with broker_and_client(memory_size=0, **settings) as (_, client):
        for _ in range(20):
            await client.send(body=bytes(1000))
        answer = await client.pull()
        assert int(answer.ext_fields["nextBeginOffset"]) == messages


async def test_flush_interval_commit_log(autojump_clock: MockClock) -> None:
    for millis in (200, 20_000):
        storage = MemoryStorage()
        async with broker_and_client(storage=storage, flush_interval_commit_log=millis) as (broker, client):
            await client.send()
            await trio.sleep(1)
            assert (broker.store.flushed_position > 0) == (millis < 1000)


@pytest.mark.parametrize("returns", [True, False])
async def test_return_order_topic_config_to_broker(autojump_clock: MockClock, returns: bool) -> None:
    async with running(return_order_topic_config_to_broker=returns) as peer:
        put = PutKVConfigRequestHeader(namespace="ORDER_TOPIC_CONFIG", key="t1", value="b:4")
        await peer.ask(RequestCode.PUT_KV_CONFIG, put)
        answer = await peer.ask(register(body("t1", "t2").encode()))
        assert (answer.body and KVTable.decode(answer.body).table) == ({"t1": "b:4"} if returns else b"")


@pytest.mark.parametrize(("supports", "addresses"), [(True, {0}), (False, {1})])
async def test_support_acting_master(autojump_clock: MockClock, supports: bool, addresses: set[int]) -> None:
    async with running(support_acting_master=supports) as peer:
        # Only a master brings topics; then it leaves and its replica stays.
        await peer.ask(register(body("t1", "t2").encode(), enable_acting_master=True))
        slave = {"broker_id": 1, "broker_addr": "127.0.0.1:10921", "enable_acting_master": True}
        await peer.ask(register(body("t1", "t2").encode(), **slave))
        leaving = {"brokerName": "b", "brokerAddr": "127.0.0.1:10911", "clusterName": "c", "brokerId": "0"}
        await peer.ask(RequestCode.UNREGISTER_BROKER, **leaving)
        route = TopicRouteData.decode((await peer.route("t1")).body)
        assert set(route.broker_datas[0].broker_addrs) == addresses
