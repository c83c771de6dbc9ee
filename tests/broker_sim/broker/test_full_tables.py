"""A broker whose tables are full refuses by a clear error, serves on, and takes again what was deleted."""

from __future__ import annotations

from contextlib import suppress

import pytest
from trio.testing import MockClock

from rocketpy.errors import BrokerError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.bodies.groups import SubscriptionGroupConfig
from rocketpy.wire.bodies.topics import CreateTopicListRequestBody, TopicConfig
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.headers.admin import CreateTopicRequestHeader
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.store import deleted_topics
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import COMMIT, SUBSCRIPTION, bodies, broker_and_client, client_of, heartbeat, settings
from tests.broker_sim.broker.test_sql_filters import subscribe

SMALL = 64 * 1024


def create(name: str) -> dict[str, str]:
    return CreateTopicRequestHeader(
        topic=name,
        default_topic="TBW102",
        read_queue_nums=4,
        write_queue_nums=4,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        order=False,
    ).to_ext()


async def test_full_tables_refuse_what_is_new_and_the_broker_serves_on(autojump_clock: MockClock) -> None:
    async with broker_and_client(max_kept_bytes=SMALL) as (broker, client):
        assert (await client.send("T")).code == 0
        codes = [
            (await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create(f"made{number}"))).code
            for number in range(100)
        ]
        taken = codes.count(0)
        assert 10 < taken < 90
        assert codes == [0] * taken + [ResponseCode.SYSTEM_ERROR] * (100 - taken)
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create("more"))
        assert "delete topics that are not needed, or raise maxKeptBytes" in (answer.remark or "")
        many = CreateTopicListRequestBody(topic_config_list=[TopicConfig(topic_name=f"L{n}") for n in range(5)])
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=many.encode())
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert not any(name.startswith("L") for name in broker.topics.all())
        group = SubscriptionGroupConfig(group_name="a-group-with-a-long-name" * 4)
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group.encode())
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert group.group_name not in broker.groups
        # A topic that its first message would make is refused as well; those that are there go on.
        assert (await client.send("another")).code == ResponseCode.SYSTEM_ERROR
        assert (await client.send("T")).code == 0
        assert (await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create("made0") | {"perm": "4"})).code == 0
        # Deleting makes room for what was refused.
        for number in range(10):
            assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": f"made{number}"})).code == 0
        assert (await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=many.encode())).code == 0
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group.encode())
        assert answer.code == 0


async def test_a_pull_whose_commit_is_refused_is_answered_with_messages(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker_and_client(max_kept_bytes=SMALL) as (broker, client):
        await client.send("T")
        broker.groups.find("g")
        for number in range(1000):
            with suppress(BrokerError):
                broker.offsets.commit("g", "T", number + 1, 1)
        answer = await client.pull("T", sys_flag=SUBSCRIPTION | COMMIT, commit_offset=0)
        assert (answer.code, len(bodies(answer))) == (0, 1)
        assert broker.offsets.query("g", "T", 0) == -1
        assert "delete groups that are not needed" in caplog.text


async def test_a_reset_of_many_queues_is_made_of_all_or_of_none(autojump_clock: MockClock) -> None:
    async with broker_and_client(max_kept_bytes=SMALL) as (broker, client):
        broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=500, write_queue_nums=500))
        broker.groups.find("g")
        fields = {"topic": "T", "group": "g", "timestamp": "-1", "isForce": "true"}
        answer = await client.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "delete groups that are not needed with their offsets" in (answer.remark or "")
        assert broker.offsets.queues("g", "T") == {}
        broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=50, write_queue_nums=50))
        assert (await client.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)).code == 0
        assert len(broker.offsets.queues("g", "T")) == 50


async def test_a_broker_starts_with_its_own_tables_under_any_budget(autojump_clock: MockClock) -> None:
    storage, network = MemoryStorage(), MemoryNetwork()
    async with open_broker(settings(), network=network, storage=storage) as broker:
        broker.topics.put_all(TopicConfig(topic_name=f"T{number}") for number in range(500))
        async with client_of(network, broker.address) as client:
            await client.send("lost")
        broker.topics.delete("lost")  # as when a crash came before its settings were written
    async with open_broker(settings(max_kept_bytes=SMALL), network=network, storage=storage) as broker:
        assert len(broker.topics) > 500
        assert "lost" in broker.topics
        assert broker.memory.tables > SMALL
        async with client_of(network, broker.address) as client:
            assert (await client.send("T7")).code == 0
            assert (await client.send("new")).code == ResponseCode.SYSTEM_ERROR


async def test_a_topic_is_not_deleted_when_too_many_deleted_ones_are_remembered(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deleted_topics, "MOST", 2)
    async with broker_and_client() as (broker, client):
        for number in range(3):
            assert (await client.send(f"T{number}")).code == 0
        broker.offsets.commit("g", "T2", 0, 1)
        answers = [await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": f"T{number}"}) for number in range(3)]
        assert [answer.code for answer in answers] == [0, 0, ResponseCode.SYSTEM_ERROR]
        assert "fileReservedTime" in (answers[-1].remark or "")
        assert "T2" in broker.topics
        assert broker.store.reads.max_offset("T2", 0) == 1
        assert broker.offsets.query("g", "T2", 0) == 1


# --- filters that nobody uses any more ---------------------------------------------------------------------


async def test_unused_filters_make_room_for_new_topics(autojump_clock: MockClock) -> None:
    async with broker_and_client(max_kept_bytes=2 * SMALL) as (broker, client):
        for number in range(100):
            await subscribe(client, "a = 1", topic=f"filtered{number}")
        table = broker.filters.table
        assert 10 < len(table) < 100
        assert not table.get("filtered99", "g").is_dead  # it took the place of another
        oldest = next(iter(table.topics))
        for number in range(30):
            assert (await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create(f"made{number}"))).code == 0
        assert broker.memory.tables <= broker.memory.most_in_tables
        assert oldest not in table.topics  # those that have been unused for longest go
        assert not table.get("filtered99", "g").is_dead


async def test_filters_in_use_make_no_room(autojump_clock: MockClock) -> None:
    async with broker_and_client(max_kept_bytes=2 * SMALL) as (broker, client):
        data = heartbeat("g", *(f"filtered{number}" for number in range(20)), tags="a = 1")
        for each in data.consumer_data_set[0].subscription_data_set:
            each.expression_type = "SQL92"
        assert (await client.ask(RequestCode.HEART_BEAT, body=data.encode())).code == 0
        answers = [await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create(f"made{n}")) for n in range(100)]
        assert answers[-1].code == ResponseCode.SYSTEM_ERROR
        assert len(broker.filters.table) == 20


async def test_filters_go_with_their_group(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        taken = broker.memory.tables
        for number in range(20):
            await subscribe(client, "a = 1", topic=f"filtered{number}")
        table = broker.filters.table
        assert (await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g"})).code == 0
        assert list(table.topics) == ["filtered19"]  # its member still wants that
        fields = {"clientID": "c1", "producerGroup": "p", "consumerGroup": "g"}
        assert (await client.ask(RequestCode.UNREGISTER_CLIENT, fields)).code == 0
        assert (await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g"})).code == 0
        assert len(table) == 0
        assert broker.memory.tables - taken < 1600  # the retry topic of the group


async def test_filters_that_were_unused_for_long_are_removed_one_a_step(autojump_clock: MockClock) -> None:
    async with broker_and_client(filter_data_clean_time_span=0) as (broker, client):
        for number in range(20):
            await subscribe(client, "a = 1", topic=f"filtered{number}")
        table = broker.filters.table
        for left, _ in enumerate(table.clean_steps()):
            assert len(table) == 20 - 1 - left
        assert list(table.topics) == ["filtered19"]
