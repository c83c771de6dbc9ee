"""The version of a subscription rises whatever the clock does."""

from __future__ import annotations

from functools import partial

import trio
from trio.testing import MockClock

from rocketpy.consumer.subscription import Subscriptions
from rocketpy.message import MessageExt
from rocketpy.seams import wall_clock, wall_ms
from tests.system.consuming import Recorder, wait_until, world


def nothing(message: MessageExt) -> None:
    pass


def version(subscriptions: Subscriptions) -> int:
    return {each.topic: each.sub_version for each in subscriptions.data()}["Orders"]


def test_a_step_back_of_the_clock_does_not_make_a_subscription_older() -> None:
    subscriptions = Subscriptions("billing", lambda: None)
    subscriptions.add("Orders", nothing)
    versions = [version(subscriptions)]
    for step in (0, -3_600_000, 60_000, 0):
        now = wall_ms() + step
        with wall_clock(partial(int, now)):
            subscriptions.add("Orders", nothing, tags="paid")
            versions.append(version(subscriptions))
            subscriptions.remove("Orders")
            subscriptions.add("Orders", nothing)
            versions.append(version(subscriptions))
    assert versions == sorted(set(versions))


async def test_a_broker_takes_a_subscription_that_changes_after_a_step_back(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        every, paid = Recorder(), Recorder()
        async with w.consumer() as consumer:
            consumer.subscribe("Orders", every)
            await consumer.wait_assigned(10)
            an_hour_ago = wall_ms() - 3_600_000
            with wall_clock(lambda: an_hour_ago):
                consumer.subscribe("Orders", paid, tags="paid")
            await trio.sleep(2)
            group = w.cluster.brokers[0].clients.consumers.group("billing")
            assert group is not None
            await wait_until(lambda: group.subscriptions["Orders"].sub_string == "paid")
            await w.send(3)
            await w.send(2, start=3, tags="paid")
            await paid.wait_count(2)
            assert every.messages == []
            assert consumer.statistics().filtered == 0
