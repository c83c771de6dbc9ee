"""Consumer groups are created, changed, deleted and looked at."""

from __future__ import annotations

from datetime import timedelta

import pytest
from trio.testing import MockClock

from rocketpy import AlreadyExistsError, BrokersFailedError, ConfigError, GroupNotFoundError
from rocketpy.message import MessageQueue
from tests.admin.scene import scene


async def test_a_group_is_created_and_changed_on_every_broker(autojump_clock: MockClock) -> None:
    async with scene(2) as s:
        made = await s.admin.groups.create("billing", max_retries=3, consume_timeout=timedelta(minutes=5))
        assert [each.broker for each in made] == ["broker-a", "broker-b"]
        assert (made[0].max_retries, made[0].consume_timeout, made[0].consume) == (3, 300.0, True)
        assert await s.admin.groups.get("billing") == made
        assert await s.admin.groups.list() == ("billing",)
        assert "TOOLS_CONSUMER" in await s.admin.groups.list(internal=True)
        await s.admin.groups.update("billing", consume=False, brokers=["broker-b"])
        assert [(each.consume, each.max_retries) for each in await s.admin.groups.get("billing")] == [
            (True, 3),
            (False, 3),
        ]
        with pytest.raises(AlreadyExistsError, match="billing exists already"):
            await s.admin.groups.create("billing")
        [again, _] = await s.admin.groups.create("billing", exist_ok=True)
        assert again.max_retries == 16


async def test_looking_at_a_group_does_not_create_it(autojump_clock: MockClock) -> None:
    async with scene() as s:
        for call in (s.admin.groups.get, s.admin.groups.update, s.admin.groups.delete, s.admin.offsets.lag):
            with pytest.raises(GroupNotFoundError, match="no broker has the group nobody") as caught:
                await call("nobody")
            assert caught.value.group == "nobody"
        assert await s.admin.groups.list() == ()


async def test_a_group_that_may_not_read_a_topic(autojump_clock: MockClock) -> None:
    async with scene() as s:
        await s.world.send(1)
        await s.admin.groups.create("audit")
        await s.admin.groups.set_readable("audit", "Orders", False)
        assert (await s.admin.groups.get("audit"))[0].forbidden_topics == ("Orders",)
        assert not s.world.cluster.brokers[0].groups.is_readable("audit", "Orders")
        await s.admin.groups.set_readable("audit", "Orders", True)
        assert (await s.admin.groups.get("audit"))[0].forbidden_topics == ()


async def test_a_deleted_group_keeps_its_offsets_unless_told_otherwise(autojump_clock: MockClock) -> None:
    async with scene(queues=1) as s:
        await s.world.send(5)
        queue = MessageQueue("Orders", "broker-a", 0)
        for offsets, left in ((False, 5 - 3), (True, 5)):
            await s.admin.groups.create("audit")
            await s.admin.offsets.commit("audit", queue, 3)
            assert (await s.admin.offsets.lag("audit")).lag == 2
            await s.admin.groups.delete("audit", offsets=offsets)
            assert await s.admin.groups.list() == ()
            await s.admin.groups.create("audit")
            assert (await s.admin.offsets.lag("audit", topic="Orders")).lag == left
            await s.admin.groups.delete("audit", offsets=True)


async def test_a_broker_that_is_down_is_named(autojump_clock: MockClock) -> None:
    async with scene(2) as s:
        await s.admin.groups.create("billing")
        s.down(0)
        for cluster in (None, "DefaultCluster"):
            with pytest.raises(BrokersFailedError, match="broker-a") as caught:
                await s.admin.groups.list(cluster=cluster)
            assert caught.value.result == ("billing",)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"group": "a b"}, "group"),
        ({"group": "TOOLS_CONSUMER"}, "RocketMQ's own"),
        ({"consume": 1}, "consume must be True or False"),
        ({"max_retries": -1}, "max_retries must be a whole number"),
        ({"retry_queues": 1.0}, "retry_queues must be a whole number"),
        ({"consume_timeout": 90}, "whole minutes"),
        ({"consume_timeout": "1"}, "whole minutes"),
        ({"attributes": {"a": 1}}, "an attribute is a name and a non-empty text"),
    ],
)
async def test_wrong_arguments(autojump_clock: MockClock, arguments: dict[str, object], text: str) -> None:
    async with scene() as s:
        with pytest.raises(ConfigError, match=text):
            await s.admin.groups.create(**({"group": "new"} | arguments))  # type: ignore[arg-type]
