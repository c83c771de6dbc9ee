"""What consumers ask about their group: its members, where it stands, and to keep where it stands."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.bodies.groups import ConsumerConnection, GetConsumerListByGroupResponseBody
from rocketpy.wire.codes import LanguageCode, RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.enums import ConsumeType
from rocketpy.wire.headers.offset import QueryConsumerOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import Client, broker_and_client, client_of, heartbeat


async def commit(client: Client, offset: int, group: str = "g", topic: str = "T", queue: int = 0) -> RemotingCommand:
    header = UpdateConsumerOffsetRequestHeader(consumer_group=group, topic=topic, queue_id=queue, commit_offset=offset)
    return await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header.to_ext())


async def query(
    client: Client, group: str = "g", topic: str = "T", queue: int = 0, zero: bool | None = None
) -> RemotingCommand:
    header = QueryConsumerOffsetRequestHeader(
        consumer_group=group, topic=topic, queue_id=queue, set_zero_if_not_found=zero
    )
    return await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, header.to_ext())


async def members(client: Client, group: str = "g") -> RemotingCommand:
    return await client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})


# --- members ---------------------------------------------------------------------------------------------


async def test_the_connections_of_a_group_are_listed(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, client), client_of(network, broker.address) as other:
        await client.heartbeat("g", "T", client_id="one", tags="a || b")
        body = heartbeat("g", "T", client_id="two", tags="a || b").encode()
        await other.ask(RequestCode.HEART_BEAT, body=body, language=LanguageCode.JAVA, version=478)
        answer = await client.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"})
        assert answer.code == 0
        found = ConsumerConnection.decode(answer.body)
        assert [(each.client_id, each.language, each.version) for each in found.connection_set] == [
            ("one", LanguageCode.PYTHON, 479),
            ("two", LanguageCode.JAVA, 478),
        ]
        assert all(each.client_addr for each in found.connection_set)
        assert found.subscription_table["T"].tags_set == {"a", "b"}
        assert found.consume_type is ConsumeType.CONSUME_PASSIVELY
        nobody = await client.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "h"})
        assert (nobody.code, nobody.remark) == (ResponseCode.CONSUMER_NOT_ONLINE, "the consumer group[h] not online")


async def test_RB4_the_members_of_a_group_are_listed(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, one):
        nobody = await members(one)
        assert (nobody.code, nobody.remark) == (ResponseCode.SYSTEM_ERROR, "no consumer for this group, g")
        await one.heartbeat("g", "T", client_id="c1")
        async with client_of(network, broker.address) as two:
            await two.heartbeat("g", "T", client_id="c2")
            body = GetConsumerListByGroupResponseBody.decode((await members(two)).body)
            assert body.consumer_id_list == ["c1", "c2"]
        await trio.sleep(1)
        body = GetConsumerListByGroupResponseBody.decode((await members(one)).body)
        assert body.consumer_id_list == ["c1"]
        for _ in range(3):
            await trio.sleep(30)
            assert GetConsumerListByGroupResponseBody.decode((await members(one)).body).consumer_id_list == ["c1"]
        await trio.sleep(60)  # c1 has sent no heartbeat for too long
        async with client_of(network, broker.address) as three:
            nobody = await members(three)
            assert (nobody.code, nobody.remark) == (ResponseCode.SYSTEM_ERROR, "no consumer for this group, g")


# --- offsets ---------------------------------------------------------------------------------------------


async def test_OF2_what_was_committed_is_found_again_also_after_a_restart(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        await client.send()
        await client.heartbeat("g", "T")
        assert (await commit(client, 1)).code == 0
        assert (await query(client)).ext_fields == {"offset": "1"}
    async with broker_and_client(storage=storage) as (_, client):
        assert (await query(client)).ext_fields == {"offset": "1"}


async def test_OF2_commits_reach_the_disk_within_five_seconds(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        await client.send()
        await client.heartbeat("g", "T")
        await commit(client, 1)
        await trio.sleep(5.5)
        killed = storage.clone()
    async with broker_and_client(storage=killed) as (_, client):
        assert (await query(client)).ext_fields == {"offset": "1"}


async def test_OF2_threat_A9_a_commit_needs_its_group_and_topic_and_makes_neither(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.send()
        answer = await commit(client, 1)
        assert (answer.code, answer.remark) == (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "Group g not exist!")
        assert "g" not in broker.groups
        await client.heartbeat("g", "T")
        answer = await commit(client, 1, topic="U")
        assert (answer.code, answer.remark) == (ResponseCode.TOPIC_NOT_EXIST, "Topic U not exist!")
        assert "U" not in broker.topics


@pytest.mark.parametrize(("queue", "offset"), [(-1, 0), (0, -1), (16, 0), (2**31 - 1, 0), (0, -(2**63))])
async def test_threat_A9_a_commit_of_what_no_queue_has_is_refused(
    autojump_clock: MockClock, queue: int, offset: int
) -> None:
    async with broker_and_client() as (broker, client):
        await client.send()
        await client.heartbeat("g", "T")
        assert (await commit(client, offset, queue=queue)).code == ResponseCode.INVALID_PARAMETER
        assert dict(broker.offsets.table()) == {}


@pytest.mark.parametrize("missing", ["queueId", "commitOffset"])
async def test_P5_a_commit_without_its_numbers_is_an_invalid_parameter(autojump_clock: MockClock, missing: str) -> None:
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "1"}
    async with broker_and_client() as (_, client):
        await client.send()
        await client.heartbeat("g", "T")
        for bad in ({**fields, missing: "x"}, {key: value for key, value in fields.items() if key != missing}):
            answer = await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, bad)
            assert answer.code == ResponseCode.INVALID_PARAMETER
        answer = await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**fields, "consumerGroup": "none"})
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_OF2_a_new_group_starts_at_zero_on_a_young_queue(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        await client.send()
        assert (await query(client)).ext_fields == {"offset": "0"}
        assert (await query(client, zero=True)).ext_fields == {"offset": "0"}
        answer = await query(client, zero=False)
        assert answer.code == ResponseCode.QUERY_NOT_FOUND
        assert answer.remark == "Not found, do not set to zero, maybe this group boot first"


@pytest.mark.parametrize(("topic", "queue"), [("T", 1), ("T", 99), ("Unknown", 0), ("T", -1)])
async def test_OF2_an_empty_or_unknown_queue_has_no_offset(autojump_clock: MockClock, topic: str, queue: int) -> None:
    async with broker_and_client() as (broker, client):
        await client.send()
        assert (await query(client, topic=topic, queue=queue)).code == ResponseCode.QUERY_NOT_FOUND
        assert broker.store.reads.topics() == {"T"}


async def test_OF2_a_new_group_does_not_start_at_zero_on_an_old_queue(autojump_clock: MockClock) -> None:
    async with broker_and_client(access_message_in_memory_max_ratio=0) as (_, client):
        for _ in range(3):
            await client.send()
        assert (await query(client)).code == ResponseCode.QUERY_NOT_FOUND


async def test_commits_do_not_count_until_a_reset_was_told(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        for _ in range(5):
            await client.send()
        await client.heartbeat("g", "T")
        broker.offsets.assign_resets("g", "T", {0: 2})
        answer = await commit(client, 5)
        assert (answer.code, answer.remark) == (0, "Offset has been previously reset")
        assert (await query(client)).ext_fields == {"offset": "2"}
