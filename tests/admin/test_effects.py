"""Commands that succeed have taken effect on every broker, and those that could not say so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from trio.testing import MockClock

from rocketpy import (
    Admin,
    BrokersFailedError,
    BrokerUnreachableError,
    ConfigError,
    GroupNotFoundError,
    TopicNotFoundError,
)
from rocketpy.message import MessageQueue
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.bodies.route import BrokerData
from rocketpy.wire.codes import RequestCode
from tests.admin.scene import Scene, scene
from tests.client.fakes import FakeBroker, FakeNameServer, route_to


async def order_of(s: Scene, topic: str = "Ledger") -> str | None:
    return await s.admin.name_servers.get("ORDER_TOPIC_CONFIG", topic)


# --- order configuration -------------------------------------------------------------------------------


async def test_the_order_configuration_grows_broker_by_broker(autojump_clock: MockClock) -> None:
    async with scene(2, topics=()) as s:
        topics, address = s.admin.topics, s.world.cluster.brokers[1].address
        await topics.create("Ledger", queues=2, order=True, brokers=["broker-a"])
        assert await order_of(s) == "broker-a:2"
        await topics.create("Ledger", queues=3, order=True, brokers=[address], exist_ok=True)
        assert await order_of(s) == "broker-a:2;broker-b:3"
        await topics.update("Ledger", queues=5, brokers=["broker-a"])
        assert await order_of(s) == "broker-a:5;broker-b:3"
        await topics.update("Ledger", order=False, brokers=[address])
        assert await order_of(s) == "broker-a:5"
        await topics.create("Ledger", queues=5, exist_ok=True)
        assert await order_of(s) is None


async def test_the_order_configuration_goes_although_routes_do_not_show_it(autojump_clock: MockClock) -> None:
    async with scene(2, topics=()) as s:
        await s.admin.topics.create("Ledger", queues=2, order=True)
        assert (await s.admin.topics.route("Ledger")).order_config is None  # orderMessageEnable is off
        await s.admin.topics.delete("Ledger", cluster="DefaultCluster")
        assert await order_of(s) is None


async def test_a_broker_that_is_given_twice_is_asked_once(autojump_clock: MockClock) -> None:
    async with scene(2) as s:
        address = s.world.cluster.brokers[0].address
        found = await s.admin.groups.create("audit", brokers=["broker-a", address, "broker-b", "broker-a"])
        assert [each.broker for each in found] == ["broker-a", "broker-b"]
        [one] = await s.admin.groups.update("audit", max_retries=2, brokers=[address, "broker-a"])
        assert (one.broker, one.max_retries) == (address, 2)


# --- groups --------------------------------------------------------------------------------------------


async def test_what_a_group_may_read_is_told_by_the_brokers(autojump_clock: MockClock) -> None:
    async with scene(2) as s:
        groups = s.admin.groups
        await groups.create("audit")
        assert await groups.set_readable("audit", "Orders", False) == ("broker-a", "broker-b")
        assert [each.forbidden_topics for each in await groups.get("audit")] == [("Orders",)] * 2
        await s.admin.topics.create("Half", brokers=["broker-b"])
        assert await groups.set_readable("audit", "Half", False) == ("broker-b",)
        with pytest.raises(TopicNotFoundError):
            await groups.set_readable("audit", "Nowhere", False)
        with pytest.raises(GroupNotFoundError):
            await groups.set_readable("nobody", "Orders", False)
        for wrong in ("False", 0, None):
            with pytest.raises(ConfigError, match="readable must be True or False"):
                await groups.set_readable("audit", "Orders", wrong)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="RocketMQ's own"):
            await groups.set_readable("TOOLS_CONSUMER", "Orders", False)


async def test_a_change_returns_what_the_broker_has_now(autojump_clock: MockClock) -> None:
    async with scene() as s:
        await s.admin.groups.create("audit")
        await s.admin.groups.set_readable("audit", "Orders", False)
        [found] = await s.admin.groups.create("audit", max_retries=2, exist_ok=True)
        assert (found.max_retries, found.forbidden_topics) == (2, ("Orders",))
        assert await s.admin.groups.get("audit") == (found,)
        await s.admin.topics.create("Delays", message_type="DELAY")
        [topic] = await s.admin.topics.create("Delays", queues=2, exist_ok=True)
        assert (topic.message_type, topic.write_queues) == ("DELAY", 2)


async def test_a_deleted_group_is_gone_where_it_was(autojump_clock: MockClock) -> None:
    async with scene(2) as s:
        await s.admin.groups.create("audit", brokers=["broker-b"])
        await s.admin.groups.set_readable("audit", "Orders", False)
        with pytest.raises(ConfigError, match="offsets must be True or False"):
            await s.admin.groups.delete("audit", offsets="no")  # type: ignore[arg-type]
        await s.admin.groups.delete("audit", cluster="DefaultCluster")
        with pytest.raises(GroupNotFoundError, match="no broker of the cluster DefaultCluster has the group audit"):
            await s.admin.groups.delete("audit", cluster="DefaultCluster")
        [again] = await s.admin.groups.create("audit", brokers=["broker-b"])
        assert again.forbidden_topics == ()


# --- offsets -------------------------------------------------------------------------------------------


async def test_a_reset_names_brokers_without_the_group(autojump_clock: MockClock) -> None:
    async with scene(2, queues=1) as s:
        await s.world.send(4)
        await s.admin.groups.create("audit", brokers=["broker-a"])
        with pytest.raises(BrokersFailedError) as caught:
            await s.admin.offsets.reset("audit", "Orders", "end")
        assert caught.value.done == ("broker-a",)
        assert isinstance(caught.value.failures["broker-b"], GroupNotFoundError)
        assert [(each.queue.broker_name, each.offset) for each in caught.value.result] == [("broker-a", 2)]
        await s.admin.topics.create("Half", brokers=["broker-b"])
        with pytest.raises(GroupNotFoundError, match="broker-b does not have the group audit"):
            await s.admin.offsets.reset("audit", "Half", "end")


async def test_offsets_only_of_queues_that_exist(autojump_clock: MockClock) -> None:
    async with scene(2, queues=2) as s:
        await s.admin.groups.create("audit")
        beyond, half = MessageQueue("Orders", "broker-a", 2), MessageQueue("Half", "broker-a", 0)
        await s.admin.topics.create("Half", brokers=["broker-b"])
        for queue in (beyond, half):
            with pytest.raises(ConfigError, match=r"there is no .* the topic has [20] queues on the broker 'broker-a'"):
                await s.admin.offsets.commit("audit", queue, 0)
            with pytest.raises(ConfigError, match="there is no"):
                await s.admin.offsets.at(queue, 0)
            with pytest.raises(ConfigError, match="there is no"):
                await s.admin.messages.read(queue)
        nowhere = MessageQueue("Nowhere", "broker-a", 0)
        for call in (
            lambda: s.admin.offsets.commit("audit", nowhere, 0),
            lambda: s.admin.offsets.at(nowhere, 0),
            lambda: s.admin.messages.read(nowhere),
        ):
            with pytest.raises(TopicNotFoundError):
                await call()
        assert s.world.cluster.brokers[0].offsets.topics_of("audit") == set()


async def test_a_copy_of_offsets_that_copies_nothing(autojump_clock: MockClock) -> None:
    async with scene(2, queues=1) as s:
        await s.world.send(4)
        for group in ("audit", "reports"):
            await s.admin.groups.create(group)
        with pytest.raises(GroupNotFoundError, match="audit has no offset in Orders on any broker"):
            await s.admin.offsets.clone("audit", "reports", "Orders")
        with pytest.raises(ConfigError, match="cannot be copied to itself"):
            await s.admin.offsets.clone("audit", "audit", "Orders")
        await s.admin.offsets.commit("audit", MessageQueue("Orders", "broker-b", 0), 1)
        await s.admin.offsets.clone("audit", "reports", "Orders")
        assert [each.committed for each in (await s.admin.offsets.lag("reports", topic="Orders")).queues] == [0, 1]


async def test_offsets_are_copied_although_the_members_subscribe_to_something_else(autojump_clock: MockClock) -> None:
    async with scene(queues=1, topics=("Orders", "Refunds")) as s:
        await s.world.send(3)
        for group in ("audit", "reports"):
            await s.admin.groups.create(group)
        await s.admin.offsets.commit("audit", MessageQueue("Orders", "broker-a", 0), 2)
        consumer = s.world.consumer("audit")
        consumer.subscribe("Refunds", lambda message: None)
        async with consumer:
            await consumer.wait_assigned(30)
            await s.admin.offsets.clone("audit", "reports", "Orders")
        assert s.world.cluster.brokers[0].offsets.query("reports", "Orders", 0) == 2


@pytest.mark.parametrize("group", ["CID_RMQ_SYS_TRANS", "TOOLS_CONSUMER"])
async def test_offsets_of_groups_of_its_own_are_left_alone(autojump_clock: MockClock, group: str) -> None:
    async with scene(queues=1) as s:
        await s.admin.groups.create("audit")
        queue = MessageQueue("Orders", "broker-a", 0)
        for call in (
            lambda: s.admin.offsets.reset(group, "Orders", "end"),
            lambda: s.admin.offsets.commit(group, queue, 0),
            lambda: s.admin.offsets.clone("audit", group, "Orders"),
        ):
            with pytest.raises(ConfigError, match="RocketMQ's own"):
                await call()


# --- a broker without a master -------------------------------------------------------------------------


@asynccontextmanager
async def without_a_master() -> AsyncIterator[tuple[Admin, FakeNameServer]]:
    """An Admin for a topic on two brokers. The second has only a slave now."""
    network, names, broker = MemoryNetwork(), FakeNameServer(), FakeBroker()
    for code in (RequestCode.DELETE_TOPIC_IN_BROKER, RequestCode.UPDATE_AND_CREATE_TOPIC):
        broker.on(code, lambda _, request: request.answer())
    async with names.open(network), broker.open(network):
        route = route_to(broker, FakeBroker("broker-b"))
        route.broker_datas[1] = BrokerData(broker_name="broker-b", broker_addrs={1: "127.0.0.1:9"})
        names.routes = {"Orders": route}
        async with Admin(namesrv=names.address, network=network, request_timeout=2) as admin:
            yield admin, names


async def test_a_topic_is_not_deleted_as_long_as_a_broker_has_no_master(autojump_clock: MockClock) -> None:
    async with without_a_master() as (admin, names):
        with pytest.raises(BrokersFailedError, match=r"broker-b has no master .* succeeded on broker-a") as caught:
            await admin.topics.delete("Orders")
        assert isinstance(caught.value.failures["broker-b"], BrokerUnreachableError)
        assert RequestCode.DELETE_TOPIC_IN_NAMESRV not in names.codes()
        with pytest.raises(BrokersFailedError) as caught:
            await admin.topics.stats("Orders")
        assert "broker-b" in caught.value.failures
