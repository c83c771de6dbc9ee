"""A group that is not sound is told of: two clients with one id, members that subscribe differently."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
import trio
from trio.testing import MockClock

from rocketpy.remoting.connection import Connection as Link
from rocketpy.wire.bodies import subscription
from rocketpy.wire.bodies.groups import Connection, ConsumerConnection
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from tests.consumer.brokers import World, world
from tests.system.consuming import Recorder


class Group:
    """What the broker says of the group."""

    def __init__(self, w: World) -> None:
        self.w = w
        self.asked = 0
        self.others: dict[str, str] = {}
        """Address to client id of other members."""
        self.theirs: Mapping[str, str] | None = None
        """Topic to tags as another has them, newer than ours; None: they subscribe as we do."""
        self.refuses: int = 0
        w.broker.on(RequestCode.GET_CONSUMER_CONNECTION_LIST, self.tell)

    def tell(self, _: Link, request: RemotingCommand) -> RemotingCommand:
        self.asked += 1
        if self.refuses:
            return request.answer(self.refuses, "as told")
        beat = self.w.broker.heartbeats[-1]
        table = {data.topic: data for data in beat.consumer_data_set[0].subscription_data_set}
        if self.theirs is not None:
            table = {topic: subscription.build(topic, tags) for topic, tags in self.theirs.items()}
            for data in table.values():
                data.sub_version = 2**60
        members = {"10.0.0.1:1000": beat.client_id, **self.others}
        body = ConsumerConnection(
            connection_set=[Connection(client_id=name, client_addr=at) for at, name in members.items()],
            subscription_table=table,
        )
        return request.answer(body=body.encode())


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.message for each in caplog.records if each.name == "rocketpy.consumer.membership"]


async def test_complaint_13_another_client_with_our_id_is_told_of(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as w:
        group = Group(w)
        consumer = w.consumer(instance_name="one")
        consumer.subscribe("Orders", Recorder())
        async with consumer:
            await trio.sleep(20)
            assert warnings(caplog) == []
            group.others = {"10.0.0.2:1000": consumer.client.client_id, "10.0.0.3:1000": "somebody else"}
            await trio.sleep(300)
            [told] = warnings(caplog)  # once
            assert f"the client id {consumer.client.client_id} of group billing" in told
            assert "10.0.0.1:1000, 10.0.0.2:1000." in told
            assert "instance_name" in told
            assert "10.0.0.3" not in told


async def test_complaint_13_what_is_left_of_a_connection_for_a_moment_is_not_told(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as w:
        group = Group(w)
        consumer = w.consumer()
        consumer.subscribe("Orders", Recorder())
        async with consumer:
            group.others = {"10.0.0.1:999": consumer.client.client_id}
            await trio.sleep(3)
            assert group.asked == 1
            group.others = {}
            await trio.sleep(100)
        assert warnings(caplog) == []


RETRY = "%RETRY%billing"


@pytest.mark.parametrize(
    ("theirs", "wants"),
    [
        ({"Orders": "a", RETRY: "*"}, "of Orders this one .* wants '\\*', and another wants 'a'"),
        ({"Orders": "b || a", RETRY: "*"}, "of Orders this one .* wants '\\*', and another wants 'a||b'"),
        ({"Orders": "*", RETRY: "*", "Bills": "x"}, "of Bills this one .* wants nothing, and another wants 'x'"),
        ({RETRY: "*"}, "of Orders this one .* wants '\\*', and another wants nothing"),
    ],
)
async def test_a_subscription_that_differs_is_told_once_with_both_and_the_ids(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, theirs: dict[str, str], wants: str
) -> None:
    async with world() as w:
        group = Group(w)
        group.others = {"10.0.0.2:1000": "10.0.0.2@another"}
        consumer = w.consumer()
        consumer.subscribe("Orders", Recorder())
        async with consumer:
            await trio.sleep(20)
            assert warnings(caplog) == []
            for _ in range(4):  # whose heartbeat was the last changes all the time
                group.theirs = theirs
                await trio.sleep(70)
                group.theirs = None
                await trio.sleep(70)
            [told] = warnings(caplog)
            assert re.search(wants.replace("||", r"\|\|"), told)
            assert "The others: 10.0.0.2@another" in told
            group.theirs = {"Orders": "quite || another", RETRY: "*"}
            await trio.sleep(70)
            assert len([told for told in warnings(caplog) if "'another||quite'" in told]) == 1


async def test_tags_in_another_order_are_the_same(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    async with world() as w:
        group = Group(w)
        group.theirs = {"Orders": "b||a", RETRY: "*"}
        consumer = w.consumer()
        consumer.subscribe("Orders", Recorder(), tags=" a || b")
        async with consumer:
            await trio.sleep(100)
        assert warnings(caplog) == []
        assert group.asked == 4


@pytest.mark.parametrize("code", [ResponseCode.NO_PERMISSION, ResponseCode.REQUEST_CODE_NOT_SUPPORTED])
async def test_a_broker_that_does_not_tell_is_not_asked_again(autojump_clock: MockClock, code: int) -> None:
    async with world() as w:
        group = Group(w)
        group.refuses = code
        consumer = w.consumer()
        consumer.subscribe("Orders", Recorder())
        async with consumer:
            await trio.sleep(300)
        assert group.asked == 1


async def test_a_broker_that_knows_no_member_yet_is_asked_again(autojump_clock: MockClock) -> None:
    async with world() as w:
        group = Group(w)
        group.refuses = ResponseCode.CONSUMER_NOT_ONLINE
        consumer = w.consumer()
        consumer.subscribe("Orders", Recorder())
        async with consumer:
            await trio.sleep(100)
        assert group.asked == 4


async def test_a_large_group_is_looked_at_less_often(autojump_clock: MockClock) -> None:
    async with world() as w:
        group = Group(w)
        group.others = {f"10.1.{number // 250}.{number % 250}:1": f"client-{number}" for number in range(1999)}
        consumer = w.consumer()
        consumer.subscribe("Orders", Recorder())
        async with consumer:
            await trio.sleep(390)
        assert group.asked == 2
