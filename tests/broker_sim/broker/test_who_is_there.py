"""Which producers are connected, which groups consume a topic, and what a group consumes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock

from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.seams import wall_clock, wall_ms
from rocketpy.wire.bodies.groups import (
    GroupList,
    ProducerConnection,
    ProducerTableInfo,
    QuerySubscriptionResponseBody,
)
from rocketpy.wire.bodies.topics import TopicList
from rocketpy.wire.codes import CURRENT_VERSION, LanguageCode, RequestCode, ResponseCode
from rocketpy.wire.names import SYSTEM_TOPICS
from tests.broker_sim.broker.kit import Client, broker_and_client, client_of
from tests.virtual_time import loop_time


@pytest.fixture(autouse=True)
def virtual() -> Iterator[None]:
    """Wall time that goes with the virtual clock of the loop."""
    with wall_clock(loop_time(1_800_000_000_000)):
        yield


async def commit(client: Client, topic: str, group: str) -> None:
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": "1"}
    assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == 0


# --- producers -------------------------------------------------------------------------------------------


async def test_A7_the_clients_of_a_producer_group(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, client), client_of(network, broker.address) as second:
        await client.heartbeat("g", "T", client_id="one")
        await second.heartbeat("g", "T", client_id="two")
        answer = await client.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "p"})
        found = ProducerConnection.decode(answer.body).connection_set
        assert [each.client_id for each in found] == ["one", "two"]
        assert {(each.language, each.version) for each in found} == {(LanguageCode.PYTHON, CURRENT_VERSION)}
        assert len({each.client_addr for each in found}) == 2
        answer = await client.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "q"})
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "the producer group[q] not exist")
        for fields in ({"producerGroup": "a b"}, {}):
            assert (await client.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, fields)).code != 0


async def test_A7_all_producers_of_a_broker(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):

        async def producers() -> ProducerTableInfo:
            return ProducerTableInfo.decode((await client.ask(RequestCode.GET_ALL_PRODUCER_INFO)).body)

        assert (await producers()).data == {}
        await client.heartbeat("g", "T", client_id="one")
        seen = wall_ms()
        await trio.sleep(20)
        [(group, [info])] = (await producers()).data.items()
        assert (group, info.client_id) == ("p", "one")
        assert info.remote_ip is not None
        assert info.remote_ip.startswith("/")
        assert info.last_update_timestamp == pytest.approx(seen, abs=20)


# --- consumers -------------------------------------------------------------------------------------------


async def groups(client: Client, topic: str) -> set[str]:
    answer = await client.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic})
    assert answer.code == 0, answer.remark
    return GroupList.decode(answer.body).group_list


async def test_A7_who_consumes_a_topic(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        await client.send("A")
        assert await groups(client, "A") == set()
        await client.heartbeat("g", "A", "B")
        await client.heartbeat("h", "B")
        await commit(client, "A", "h")
        assert await groups(client, "A") == {"g", "h"}
        assert await groups(client, "B") == {"g", "h"}
        assert await groups(client, "nowhere") == set()
        assert (await client.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "a b"})).code != 0


async def test_A7_what_a_group_has_committed_on(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        for topic in ("A", "B"):
            await client.send(topic)
        await client.heartbeat("g", "A")
        for topic in ("A", "B"):
            await commit(client, topic, "g")

        async def topics(group: str) -> TopicList:
            answer = await client.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": group})
            assert answer.code == 0, answer.remark
            return TopicList.decode(answer.body)

        assert (await topics("g")) == TopicList(topic_list={"A", "B"}, broker_addr=broker.address)
        assert (await topics("nobody")).topic_list == set()
        assert (await client.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": ""})).code != 0


async def test_A7_how_a_group_subscribes_a_topic(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        await client.heartbeat("g", "A", tags="X || Y")

        async def subscription(topic: str, group: str = "g") -> QuerySubscriptionResponseBody:
            fields = {"group": group, "topic": topic}
            answer = await client.ask(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, fields)
            assert answer.code == 0, answer.remark
            return QuerySubscriptionResponseBody.decode(answer.body)

        found = await subscription("A")
        assert (found.group, found.topic) == ("g", "A")
        assert found.subscription_data is not None
        assert found.subscription_data.tags_set == {"X", "Y"}
        assert (await subscription("B")).subscription_data is None
        assert (await subscription("A", "nobody")).subscription_data is None
        assert (await client.ask(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, {"group": "g"})).code != 0


async def test_A7_the_topics_of_the_system(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        answer = await client.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
        found = TopicList.decode(answer.body).topic_list
        assert found >= SYSTEM_TOPICS | {"broker-a", "DefaultCluster"}
