"""The offsets of all groups and levels as tools read, compare and copy them."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.wire.bodies.offsets import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    QueryCorrectionOffsetBody,
)
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.headers.offset import CloneGroupOffsetRequestHeader
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import Client, broker_and_client


async def commit(client: Client, group: str, topic: str = "T", **queues: int) -> None:
    for queue, offset in queues.items():
        fields = {"consumerGroup": group, "topic": topic, "queueId": queue[1:], "commitOffset": str(offset)}
        assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == 0


async def test_A7_all_offsets(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):

        async def offsets() -> ConsumerOffsetSerializeWrapper:
            answer = await client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
            assert answer.code == 0, answer.remark
            return ConsumerOffsetSerializeWrapper.decode(answer.body)

        assert (await offsets()).offset_table == {}
        for topic in ("A", "B"):
            for _ in range(3):
                await client.send(topic)
        await client.heartbeat("g", "A")
        await commit(client, "g", "A", q0=2, q1=0)
        await commit(client, "g", "B", q0=3)
        found = await offsets()
        assert found.offset_table == {"A@g": {0: 2, 1: 0}, "B@g": {0: 3}}
        assert found.data_version == broker.tables.offsets.data_version
        raw = (await client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)).body
        assert b'"A@g":{0:2,1:0}' in raw  # Java writes numbers as keys bare


async def test_A7_how_far_delay_levels_are(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        await client.send(properties="DELAY\x011\x02")
        await trio.sleep(5)
        answer = await client.ask(RequestCode.GET_ALL_DELAY_OFFSET)
        assert DelayOffsetSerializeWrapper.decode(answer.body).offset_table[1] == 1


async def test_A7_where_the_lowest_of_all_groups_stands(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        for _ in range(5):
            await client.send()
            await client.send(queue_id=1)
        for group in ("g", "h", "i"):
            await client.heartbeat(group, "T", client_id=group)
        await commit(client, "g", q0=3, q1=1)
        await commit(client, "h", q0=2, q1=5)
        await commit(client, "i", q0=1, q1=1)

        async def correction(compared: str, left_out: str | None = None) -> dict[int, int]:
            fields = {"topic": "T", "compareGroup": compared}
            if left_out is not None:
                fields["filterGroups"] = left_out
            answer = await client.ask(RequestCode.QUERY_CORRECTION_OFFSET, fields)
            assert answer.code == 0, answer.remark
            return QueryCorrectionOffsetBody.decode(answer.body).correction_offsets

        assert await correction("unknown") == {0: 1, 1: 1}
        assert await correction("unknown", "i") == {0: 2, 1: 1}
        assert await correction("i", "i") == {0: 2**63 - 1, 1: 1}
        assert await correction("g", "g,h,i,,other") == {}
        assert await correction("unknown") == {0: 1, 1: 1}  # those left out keep their offsets
        for fields in ({"topic": "T"}, {"topic": "a b", "compareGroup": "g"}):
            assert (await client.ask(RequestCode.QUERY_CORRECTION_OFFSET, fields)).code != 0
        fields = {"topic": "T", "compareGroup": "g", "filterGroups": "," * 2000}
        assert (await client.ask(RequestCode.QUERY_CORRECTION_OFFSET, fields)).code == ResponseCode.INVALID_PARAMETER


# --- copying ---------------------------------------------------------------------------------------------


async def clone(client: Client, **fields: Any) -> int:
    header = CloneGroupOffsetRequestHeader(**{"src_group": "g", "dest_group": "copy", "offline": False, **fields})
    return (await client.ask(RequestCode.CLONE_GROUP_OFFSET, header.to_ext())).code


def queues(broker: Broker, topic: str, group: str = "copy") -> dict[int, int]:
    return broker.tables.offsets.queues(group, topic)


async def test_OF4_a_group_takes_the_offsets_of_another(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        for topic in ("A", "B"):
            for _ in range(3):
                await client.send(topic)
        await client.heartbeat("g", "A", "B")
        await commit(client, "g", "A", q0=2, q1=0)
        await commit(client, "g", "B", q0=1)
        assert await clone(client, topic="A") == 0
        assert queues(broker, "A") == {0: 2, 1: 0}
        assert queues(broker, "B") == {}
        assert await clone(client) == 0
        assert queues(broker, "B") == {0: 1}
        assert queues(broker, "A", "g") == {0: 2, 1: 0}
        await commit(client, "copy", "A", q0=3)
        assert queues(broker, "A", "g") == {0: 2, 1: 0}
        assert await clone(client, dest_group="g") == 0
        assert await clone(client, src_group="nobody") == 0
        assert await clone(client, topic="nowhere") == 0
        assert "copy" in broker.tables.groups
    async with broker_and_client(storage=storage) as (broker, _):
        assert queues(broker, "B") == {0: 1}


async def test_OF4_only_what_the_copied_group_subscribes_unless_it_is_offline(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.send("A")
        await client.send("B")
        await client.heartbeat("g", "B")
        await commit(client, "g", "A", q0=1)
        assert await clone(client) == 0
        assert queues(broker, "A") == {}
        assert await clone(client, offline=True) == 0
        assert queues(broker, "A") == {0: 1}


async def test_OF4_a_copy_ends_a_reset(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        for _ in range(3):
            await client.send()
        await client.heartbeat("g", "T")
        await client.heartbeat("copy", "T", client_id="c2")
        await commit(client, "g", q0=2)
        broker.tables.offsets.assign_resets("copy", "T", {0: 0})
        assert await clone(client) == 0
        assert broker.tables.offsets.query("copy", "T", 0) == 2


async def test_OF4_what_cannot_be_copied_is_refused(autojump_clock: MockClock) -> None:
    async with broker_and_client(auto_create_subscription_group=False) as (broker, client):
        assert await clone(client) == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert broker.tables.offsets.table() == {}
        for fields in ({"src_group": "a b"}, {"dest_group": ""}, {"topic": "../x"}):
            assert await clone(client, **fields) == ResponseCode.INVALID_PARAMETER


@pytest.mark.parametrize("most", [0, 1])
async def test_OF4_a_copy_is_bounded_as_commits_are(autojump_clock: MockClock, most: int) -> None:
    async with broker_and_client(max_consumer_offsets=2 + most) as (broker, client):
        for _ in range(3):
            await client.send()
        await client.heartbeat("g", "T")
        await commit(client, "g", q0=2, q1=0)
        assert await clone(client) == ResponseCode.SYSTEM_ERROR
        assert queues(broker, "T") == {}
