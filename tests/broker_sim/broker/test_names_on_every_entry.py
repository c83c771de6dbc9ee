"""A name that no topic or group has is stopped at every entry, before a table, a path or a log sees it as it is."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rocketpy.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList
from rocketpy.wire.bodies.topics import CreateTopicListRequestBody, TopicConfig
from rocketpy.wire.codes import RequestCode
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import Client, broker_and_client, pull_fields, send_fields
from tests.broker_sim.broker.support import BAD_NAMES

QUEUE = {"queueId": "0", "timestamp": "0", "commitOffset": "1", "offset": "0", "delayLevel": "1"}
TOPIC = {
    "defaultTopic": "TBW102",
    "readQueueNums": "1",
    "writeQueueNums": "1",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
}
BY_TOPIC = [
    (RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC),
    (RequestCode.DELETE_TOPIC_IN_BROKER, {}),
    (RequestCode.GET_TOPIC_CONFIG, {}),
    (RequestCode.GET_MAX_OFFSET, QUEUE),
    (RequestCode.GET_MIN_OFFSET, QUEUE),
    (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, QUEUE),
    (RequestCode.GET_EARLIEST_MSG_STORETIME, QUEUE),
    (RequestCode.QUERY_CONSUMER_OFFSET, {**QUEUE, "consumerGroup": "g"}),
    (RequestCode.UPDATE_CONSUMER_OFFSET, {**QUEUE, "consumerGroup": "g"}),
    (RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, {"group": "g", "readable": "false"}),
]
BY_GROUP = [
    (RequestCode.GET_CONSUMER_LIST_BY_GROUP, "consumerGroup", {}),
    (RequestCode.QUERY_CONSUMER_OFFSET, "consumerGroup", {**QUEUE, "topic": "T"}),
    (RequestCode.UPDATE_CONSUMER_OFFSET, "consumerGroup", {**QUEUE, "topic": "T"}),
    (RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, "group", {"topic": "T", "readable": "false"}),
    (RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, "group", {}),
    (RequestCode.DELETE_SUBSCRIPTIONGROUP, "groupName", {"cleanOffset": "true"}),
    (RequestCode.CONSUMER_SEND_MSG_BACK, "group", QUEUE),
]


async def answers(client: Client, name: str) -> list[tuple[str, int]]:
    """What every entry answers to a name."""
    found = []

    async def ask(label: str, code: int, fields: dict[str, str], body: bytes = b"") -> None:
        found.append((label, (await client.ask(code, fields, body)).code))

    for code, fields in BY_TOPIC:
        await ask(code.name, code, {**fields, "topic": name})
    for code, member, fields in BY_GROUP:
        await ask(code.name, code, {**fields, member: name})
    topics = CreateTopicListRequestBody(topic_config_list=[TopicConfig(topic_name=name)])
    await ask("topic list", RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {}, topics.encode())
    group = SubscriptionGroupConfig(group_name=name)
    await ask("group", RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, group.encode())
    groups = SubscriptionGroupList(group_config_list=[group])
    await ask("group list", RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, {}, groups.encode())
    await ask("reply", RequestCode.SEND_REPLY_MESSAGE_V2, send_fields(name), b"x")
    await ask("send", RequestCode.SEND_MESSAGE_V2, send_fields(name), b"x")
    await ask("pull", RequestCode.PULL_MESSAGE, pull_fields(name, 0, 0))
    await ask("pull by group", RequestCode.PULL_MESSAGE, pull_fields("T", 0, 0, consumer_group=name))
    return found


def files(storage: MemoryStorage, folder: str = "") -> list[str]:
    """Every file below a folder."""
    found: list[str] = []
    for name in storage.list(folder):
        path = f"{folder}/{name}" if folder else name
        found += files(storage, path) if storage.is_dir(path) else [path]
    return found


@pytest.mark.parametrize("name", BAD_NAMES)
async def test_threat_A1_a_bad_name_is_stopped_at_every_entry(autojump_clock: MockClock, name: str) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        await client.send()
        await client.heartbeat("g", "T")
        topics, groups, paths = set(broker.topics.all()), set(broker.groups.all()), files(storage)
        passed = [label for label, code in await answers(client, name) if code == 0]
        assert passed == []
        await client.heartbeat(name, "T")
        await client.heartbeat("g", name)
        assert set(broker.topics.all()) == topics
        assert set(broker.groups.all()) == groups
        assert dict(broker.offsets.table()) == {}
        assert [group.name for group in broker.clients.consumers.groups()] == ["g"]
        assert dict(broker.groups.forbidden()) == {}
        assert set(files(storage)) - set(paths) <= {
            "config/consumerOffset.json",
            "config/subscriptionGroup.json",
            "config/topics.json",
            "config/subscriptionGroup.json.bak",
            "config/topics.json.bak",
            "config/delayOffset.json",
        }
        assert (await client.send()).code == 0


async def test_threat_A1_a_good_name_passes_everywhere(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        await client.send()
        await client.heartbeat("g", "T")
        assert {label for label, code in await answers(client, "Good-name_1%|") if code == 29} == set()
