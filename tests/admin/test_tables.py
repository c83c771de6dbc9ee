"""What is asked of whole clusters: all settings, the traffic of topics, entries of queues, and replication."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy import (
    BrokerNotFoundError,
    BrokersFailedError,
    ConfigError,
    ConnectError,
    MessageQueue,
    RequestCodeNotSupportedError,
    TopicNotFoundError,
)
from rocketpy.admin.entries import _entry
from rocketpy.admin.replication import replication
from rocketpy.wire.bodies.consume_queue import ConsumeQueueData
from rocketpy.wire.bodies.replication import HAClientRuntimeInfo, HAConnectionRuntimeInfo, HARuntimeInfo
from rocketpy.wire.bodies.subscription import SubscriptionData
from rocketpy.wire.codes import RequestCode
from tests.admin.scene import scene
from tests.admin.test_large_answers import answering

FIRST = MessageQueue("Orders", "broker-a", 0)


async def test_the_settings_of_all_topics_and_groups(autojump_clock: MockClock) -> None:
    async with scene(2) as s:
        await s.admin.topics.create("Bills", queues=2, brokers=["broker-b"])
        await s.admin.groups.create("billing", max_retries=3)
        found = await s.admin.topics.get_all()
        assert [(each.topic, each.broker, each.write_queues) for each in found] == [
            ("Bills", "broker-b", 2),
            ("Orders", "broker-a", 4),
            ("Orders", "broker-b", 4),
        ]
        assert found[1:] == await s.admin.topics.get("Orders")
        names = {each.topic for each in await s.admin.topics.get_all(brokers=["broker-a"], internal=True)}
        assert {"Orders", "TBW102", "broker-a"} <= names
        assert "Bills" not in names
        groups = await s.admin.groups.get_all(cluster="DefaultCluster")
        assert groups == await s.admin.groups.get("billing")
        assert "TOOLS_CONSUMER" in {each.group for each in await s.admin.groups.get_all(internal=True)}
        for ask in (s.admin.topics.get_all, s.admin.groups.get_all):
            with pytest.raises(BrokerNotFoundError):
                await ask(cluster="x")
            with pytest.raises(ConfigError, match="pass brokers or cluster, not both"):
                await ask(brokers=["broker-a"], cluster="DefaultCluster")
            s.down(1)
            with pytest.raises(BrokersFailedError, match="1 of 2 servers") as caught:
                await ask()
            assert {each.broker for each in caught.value.result} == {"broker-a"}
            s.up(1)


async def test_the_traffic_of_a_topic(autojump_clock: MockClock) -> None:
    async with scene(2, queues=1) as s:
        for group in ("audit", "billing"):
            await s.admin.groups.create(group)
        empty = await s.admin.topics.traffic("Orders")
        assert (empty.put_rate, empty.puts, empty.groups) == (0.0, 0, ())
        await s.world.send(20)
        stats = await s.admin.topics.stats("Orders")
        for queue in stats.queues:
            await s.admin.offsets.commit("billing", queue.queue, queue.end - 1)
        await trio.sleep(60)
        found = await s.admin.topics.traffic("Orders")
        assert (found.topic, found.puts) == ("Orders", 20)
        assert found.put_rate > 0
        [billing] = found.groups
        assert (billing.group, billing.lag, billing.gets, billing.get_rate) == ("billing", 2, 0, 0.0)
        with pytest.raises(TopicNotFoundError):
            await s.admin.topics.traffic("Unknown")
        s.down(1)
        with pytest.raises(BrokersFailedError, match="1 of 2 servers") as caught:
            await s.admin.topics.traffic("Orders")
        assert isinstance(caught.value.failures["broker-b"], ConnectError)
        assert [each.lag for each in caught.value.result.groups] == [1]


async def test_entries_of_a_queue(autojump_clock: MockClock) -> None:
    async with scene(queues=1) as s:
        await s.admin.groups.create("billing")
        await s.world.send(5)
        found = await s.admin.messages.entries(FIRST, begin=1, count=3)
        assert (found.queue, found.begin, found.end, found.expression, found.filter) == (FIRST, 0, 5, None, None)
        assert [each.offset for each in found.entries] == [1, 2, 3]
        messages = await s.admin.messages.read(FIRST, begin=1, max_messages=3)
        assert [(each.position, each.size) for each in found.entries] == [
            (each.commit_log_offset, each.store_size) for each in messages
        ]
        assert {each.delivered for each in found.entries} == {None}
        assert (await s.admin.messages.entries(FIRST, begin=5)).entries == ()
        offline = await s.admin.messages.entries(FIRST, group="billing")
        assert (offline.expression, {each.delivered for each in offline.entries}) == (None, {None})
        assert "not online" in str(offline.filter)
        for wrong in ({"begin": -1}, {"count": 0}, {"count": 10_001}, {"group": ""}):
            with pytest.raises(ConfigError):
                await s.admin.messages.entries(FIRST, **wrong)
        with pytest.raises(ConfigError, match="there is no Orders@broker-a:7"):
            await s.admin.messages.entries(MessageQueue("Orders", "broker-a", 7))


@pytest.mark.parametrize(
    ("subscription", "entry", "delivered"),
    [
        (SubscriptionData(topic="T"), {"tags_code": 7}, True),
        (SubscriptionData(topic="T", sub_string=""), {"tags_code": 7}, True),
        (SubscriptionData(topic="T", sub_string="a", code_set={97}), {"tags_code": 97}, True),
        (SubscriptionData(topic="T", sub_string="a", code_set={97}), {"tags_code": 98}, False),
        (SubscriptionData(topic="T", sub_string="x > 1", expression_type="SQL92"), {"eval": False}, None),
        (
            SubscriptionData(topic="T", sub_string="x > 1", expression_type="SQL92"),
            {"eval": True, "extend_data_json": "{}"},
            True,
        ),
        (None, {"eval": False}, None),
    ],
)
def test_what_a_group_would_get_is_told_only_where_it_can_be(subscription: Any, entry: Any, delivered: Any) -> None:
    assert _entry(3, ConsumeQueueData(**entry), subscription).delivered is delivered


async def test_replication_of_a_master(autojump_clock: MockClock) -> None:
    async with scene() as s:
        await s.world.send(3)
        found = await s.admin.brokers.replication("broker-a")
        assert (found.broker, found.is_master, found.slaves, found.in_sync) == ("broker-a", True, (), 0)
        assert found.commit_log_end == s.world.cluster.brokers[0].store.written_position
        with pytest.raises(BrokerNotFoundError):
            await s.admin.brokers.replication("nobody")


async def test_a_broker_without_figures_of_replication(autojump_clock: MockClock) -> None:
    async with answering(RequestCode.GET_ALL_TOPIC_CONFIG, "{}") as admin:
        with pytest.raises(RequestCodeNotSupportedError):
            await admin.brokers.replication("broker-a")


def test_what_a_master_says_of_its_slaves() -> None:
    def slave(address: str, *, in_sync: bool) -> HAConnectionRuntimeInfo:
        return HAConnectionRuntimeInfo(
            addr=address,
            slave_ack_offset=90,
            diff=10,
            in_sync=in_sync,
            transferred_byte_in_second=7,
            transfer_from_where=95,
        )

    slaves = [slave("10.0.0.3:1", in_sync=False), slave("10.0.0.2:1", in_sync=True)]
    found = replication("a", HARuntimeInfo(master=True, master_commit_log_max_offset=100, ha_connection_info=slaves))
    assert (found.commit_log_end, found.in_sync, found.master) == (100, 1, None)
    assert [(each.address, each.is_in_sync) for each in found.slaves] == [("10.0.0.2:1", True), ("10.0.0.3:1", False)]
    one = found.slaves[0]
    assert (one.acknowledged, one.behind, one.byte_rate, one.sent_from) == (90, 10, 7, 95)


def test_what_a_slave_says_of_itself() -> None:
    client = HAClientRuntimeInfo(
        master_addr="10.0.0.1:10912",
        transferred_byte_in_second=7,
        max_offset=90,
        last_read_timestamp=1000,
        last_write_timestamp=0,
        master_flush_offset=80,
    )
    found = replication("10.0.0.2:10911", HARuntimeInfo(master=False, ha_client_runtime_info=client))
    assert (found.is_master, found.commit_log_end, found.master, found.master_flushed) == (
        False,
        90,
        "10.0.0.1:10912",
        80,
    )
    assert (found.byte_rate, found.last_written_at) == (7, None)
    assert found.last_read_at == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
