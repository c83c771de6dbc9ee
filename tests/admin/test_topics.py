"""Topics are created, changed, deleted and looked at, on all brokers of a cluster or on some."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rocketpy import (
    AlreadyExistsError,
    BrokerNotFoundError,
    BrokersFailedError,
    ConfigError,
    ConnectError,
    Message,
    TopicNotFoundError,
    TopicNotWritableError,
)
from tests.admin.scene import scene


async def test_a_topic_is_created_on_every_broker_and_shown_at_once(autojump_clock: MockClock) -> None:
    async with scene(2, topics=()) as s:
        made = await s.admin.topics.create("Orders", queues=3, read_queues=5, message_type="NORMAL")
        assert [(each.broker, each.write_queues, each.read_queues) for each in made] == [
            ("broker-a", 3, 5),
            ("broker-b", 3, 5),
        ]
        assert await s.admin.topics.get("Orders") == made
        assert (made[0].permission, made[0].message_type, made[0].order) == ("rw", "NORMAL", False)
        route = await s.admin.topics.route("Orders")
        assert [(each.broker, each.cluster, each.write_queues) for each in route.brokers] == [
            ("broker-a", "DefaultCluster", 3),
            ("broker-b", "DefaultCluster", 3),
        ]
        assert route.brokers[0].addresses == {0: s.world.cluster.brokers[0].address}
        assert await s.admin.topics.list() == ("Orders",)
        assert {"TBW102", "broker-a", "DefaultCluster"} <= {*await s.admin.topics.list(internal=True)}


async def test_a_topic_on_some_brokers(autojump_clock: MockClock) -> None:
    async with scene(2, topics=()) as s:
        address = s.world.cluster.brokers[1].address
        [made] = await s.admin.topics.create("Orders", brokers=["broker-a"])
        assert made.broker == "broker-a"
        assert [each.broker for each in (await s.admin.topics.route("Orders")).brokers] == ["broker-a"]
        [there] = await s.admin.topics.create("Orders", brokers=[address], exist_ok=True)
        assert there.broker == address
        assert len(await s.admin.topics.get("Orders")) == 2
        await s.admin.topics.create("Whole", cluster="DefaultCluster")
        assert await s.admin.topics.list(cluster="DefaultCluster") == ("Orders", "Whole")


async def test_what_exists_is_changed_only_on_request(autojump_clock: MockClock) -> None:
    async with scene() as s:
        with pytest.raises(AlreadyExistsError, match="Orders exists already") as caught:
            await s.admin.topics.create("Orders", queues=1)
        assert caught.value.name == "Orders"
        assert (await s.admin.topics.get("Orders"))[0].write_queues == 4
        await s.admin.topics.create("Orders", queues=1, exist_ok=True)
        assert (await s.admin.topics.get("Orders"))[0].write_queues == 1


async def test_settings_that_are_not_given_stay(autojump_clock: MockClock) -> None:
    async with scene() as s:
        await s.admin.topics.create("Delays", queues=2, message_type="DELAY")
        [made] = await s.admin.topics.update("Delays", queues=6)
        assert (made.write_queues, made.read_queues, made.message_type) == (6, 6, "DELAY")
        [made] = await s.admin.topics.update("Delays", queues=1)
        assert (made.write_queues, made.read_queues) == (1, 6)  # what is there can still be read
        [made] = await s.admin.topics.update("Delays", read_queues=1, attributes={"message.type": None})
        assert (made.write_queues, made.read_queues, made.message_type) == (1, 1, None)
        assert await s.admin.topics.get("Delays") == (made,)


async def test_a_permission_that_is_taken_away(autojump_clock: MockClock) -> None:
    async with scene() as s:
        await s.admin.topics.update("Orders", permission="r")
        async with s.world.puller() as puller:
            with pytest.raises(TopicNotWritableError):
                await puller.client.routes.ensure("Orders")
            assert len(await puller.fetch_message_queues("Orders")) == 4
        [made] = await s.admin.topics.update("Orders", permission="")
        assert made.permission == ""
        await s.admin.topics.update("Orders", permission="rw")
        assert (await s.admin.topics.route("Orders")).brokers[0].permission == "rw"


async def test_the_order_configuration_goes_with_the_topic(autojump_clock: MockClock) -> None:
    async with scene(2, topics=(), order_message_enable=True) as s:
        await s.admin.topics.create("Ledger", queues=2, order=True)
        assert (await s.admin.topics.route("Ledger")).order_config == "broker-a:2;broker-b:2"
        await s.admin.topics.update("Ledger", order=False)
        assert (await s.admin.topics.route("Ledger")).order_config is None
        await s.admin.topics.update("Ledger", order=True, queues=3)
        assert (await s.admin.topics.route("Ledger")).order_config == "broker-a:3;broker-b:3"
        await s.admin.topics.delete("Ledger")
        assert await s.admin.name_servers.list("ORDER_TOPIC_CONFIG") == {}


async def test_statistics_of_a_topic(autojump_clock: MockClock) -> None:
    async with scene(2, queues=2) as s:
        await s.world.send(10)
        found = await s.admin.topics.stats("Orders")
        assert found.messages == 10
        assert [each.queue for each in found.queues] == sorted(each.queue for each in found.queues)
        assert sum(each.end - each.begin for each in found.queues) == 10
        written = found.queues[0].last_written_at
        assert written is not None
        assert written.utcoffset() is not None
        await s.admin.topics.create("Empty", queues=1)
        assert {each.last_written_at for each in (await s.admin.topics.stats("Empty")).queues} == {None}


async def test_a_deleted_topic_is_gone_everywhere(autojump_clock: MockClock) -> None:
    async with scene(2, auto_create_topic_enable=False) as s:
        await s.admin.topics.delete("Orders")
        assert await s.admin.topics.list() == ()
        for call in (s.admin.topics.get, s.admin.topics.route, s.admin.topics.stats, s.admin.topics.delete):
            with pytest.raises(TopicNotFoundError):
                await call("Orders")
        with pytest.raises(TopicNotFoundError):
            await s.admin.topics.update("Orders", queues=1)
        with pytest.raises(BrokerNotFoundError, match="known clusters: DefaultCluster"):
            await s.admin.topics.list(cluster="nowhere")


async def test_a_broker_that_is_down_is_named_and_the_others_have_done_it(autojump_clock: MockClock) -> None:
    async with scene(3) as s:
        s.down(1)
        with pytest.raises(BrokersFailedError, match=r"creating the topic New failed on 1 of 3 .* broker-b") as caught:
            await s.admin.topics.create("New", queues=2)
        error = caught.value
        assert isinstance(error.failures["broker-b"], ConnectError)
        assert error.done == ("broker-a", "broker-c")
        assert [each.broker for each in error.result] == ["broker-a", "broker-c"]
        assert "succeeded on broker-a, broker-c" in str(error)
        with pytest.raises(BrokersFailedError) as caught:
            await s.admin.topics.get("Orders")
        assert [each.broker for each in caught.value.result] == ["broker-a", "broker-c"]
        with pytest.raises(BrokersFailedError):
            await s.admin.topics.delete("Orders")
        assert len((await s.admin.topics.route("Orders")).brokers) == 3  # the name servers still show it
        with pytest.raises(ConnectError):  # nothing to combine: its own error says it best
            await s.admin.topics.create("Alone", brokers=["broker-b"])
        s.up(1)
        await s.admin.topics.delete("Orders")
        await s.admin.topics.create("New", queues=2, exist_ok=True)
        assert await s.admin.topics.list() == ("New",)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"topic": "a b"}, "topic"),
        ({"topic": ""}, "topic"),
        ({"topic": "TBW102"}, "RocketMQ's own"),
        ({"queues": 0}, "queues must be a whole number"),
        ({"queues": True}, "queues must be a whole number"),
        ({"read_queues": 70_000}, "read_queues must be a whole number"),
        ({"permission": "x"}, "permission must be"),
        ({"attributes": {"a": "b,c"}}, "an attribute is a name and a non-empty text without"),
        ({"attributes": {"": "b"}}, "an attribute is a name and a non-empty text without"),
        ({"brokers": []}, "must have at least one name"),
        ({"brokers": [1]}, "must be names such as broker-a"),
        ({"brokers": "broker-a", "cluster": "DefaultCluster"}, "not both"),
    ],
)
async def test_wrong_arguments(autojump_clock: MockClock, arguments: dict[str, object], text: str) -> None:
    async with scene(topics=()) as s:
        with pytest.raises(ConfigError, match=text):
            await s.admin.topics.create(**({"topic": "New"} | arguments))  # type: ignore[arg-type]
        assert await s.admin.topics.list() == ()


async def test_a_new_topic_can_be_sent_to(autojump_clock: MockClock) -> None:
    async with scene(topics=(), auto_create_topic_enable=False) as s:
        await s.admin.topics.create("New", queues=1)
        assert (await s.world.producer.send(Message("New", b"x"))).queue.topic == "New"
