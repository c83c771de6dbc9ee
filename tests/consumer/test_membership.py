"""A group that is not sound is told of: two clients with one id, members that subscribe or work differently."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer.rebalancing.strategies import AllocateByConfig
from rocketpy.remoting.connection import Connection as Link
from rocketpy.results import MessageModel
from rocketpy.wire.bodies import subscription
from rocketpy.wire.bodies.groups import ClientConnection, ConsumerConnection
from rocketpy.wire.bodies.running import ConsumerRunningInfo
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from tests.consumer.brokers import World, world
from tests.consumer.test_offset_storage import Shelf
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
        self.model: MessageModel | None = None
        """The message model of the last heartbeat."""
        self.refuses: int = 0
        self.about: list[str] = []
        """The members whose running info was asked for."""
        self.properties: dict[str, str] | None = None
        """What all members say of themselves; None: the broker reaches none."""
        w.broker.on(RequestCode.GET_CONSUMER_RUNNING_INFO, self.tell_of_one)
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
            connection_set=[ClientConnection(client_id=name, client_addr=at) for at, name in members.items()],
            subscription_table=table,
            message_model=self.model,
        )
        return request.answer(body=body.encode())

    def tell_of_one(self, _: Link, request: RemotingCommand) -> RemotingCommand:
        self.about.append(request.ext_fields["clientId"])
        if self.properties is None:
            return request.answer(ResponseCode.SYSTEM_ERROR, "it is gone")
        info = ConsumerRunningInfo(properties=self.properties, subscription_set=[subscription.build("Orders", "*")])
        return request.answer(body=info.encode())


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    loggers = "rocketpy.consumer.rebalancing.membership", "rocketpy.consumer.rebalancing.successor"
    return [each.message for each in caplog.records if each.name in loggers]


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


@pytest.mark.slow
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


@pytest.mark.slow
async def test_a_large_group_is_looked_at_less_often(autojump_clock: MockClock) -> None:
    async with world() as w:
        group = Group(w)
        group.others = {f"10.1.{number // 250}.{number % 250}:1": f"client-{number}" for number in range(1999)}
        consumer = w.consumer()
        consumer.subscribe("Orders", Recorder())
        async with consumer:
            await trio.sleep(390)
        assert group.asked == 2


# --- members that work differently ------------------------------------------------------------------------

JAVA = "org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueue"


async def compared(
    caplog: pytest.LogCaptureFixture, properties: dict[str, str], *, lite: bool = False, **settings: Any
) -> list[str]:
    """What a member says of another one with these properties."""
    async with world() as w:
        group = Group(w)
        group.others, group.properties = {"10.0.0.2:1000": "10.0.0.2@another"}, properties
        consumer: Any = (w.lite if lite else w.consumer)(**settings)
        consumer.subscribe("Orders", *(() if lite else (Recorder(),)))
        async with consumer:
            await trio.sleep(200)
            assert group.about == ["10.0.0.2@another"]
            mine = consumer.client.client_id
    return [text.replace(mine, "mine").replace("10.0.0.2@another", "theirs") for text in warnings(caplog)]


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_member_that_consumes_in_order_beside_one_that_does_not_is_told_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, orderly: bool
) -> None:
    [told] = await compared(caplog, {"PROP_CONSUMEORDERLY": str(not orderly).lower()}, orderly=orderly)
    assert ("mine does, and theirs does not." if orderly else "theirs does, and mine does not.") in told
    assert "Set orderly in all members or in none" in told


@pytest.mark.parametrize("asks", [False, True])
async def test_another_message_model_is_told_once_even_where_members_cannot_be_asked(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, asks: bool
) -> None:
    async with world() as w:
        group = Group(w)
        group.others, group.theirs = {"10.0.0.2:1000": "10.0.0.2@another"}, {"Orders": "*"}
        group.model = MessageModel.BROADCASTING
        group.properties = {"messageModel": "BROADCASTING", "PROP_CONSUMEORDERLY": "true"} if asks else None
        consumer = w.consumer()
        consumer.subscribe("Orders", Recorder())
        async with consumer:
            await trio.sleep(200)
            mine = consumer.client.client_id
    [told] = warnings(caplog)
    assert f"this one ({mine}) has CLUSTERING, and another has BROADCASTING." in told
    assert told.endswith("The others: 10.0.0.2@another")


@pytest.mark.parametrize("lite", [False, True])
async def test_another_allocation_strategy_is_told_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, lite: bool
) -> None:
    theirs = {"allocateMessageQueueStrategy": f"{JAVA}AveragelyByCircle@4d5b6aac", "messageModel": "CLUSTERING"}
    [told] = await compared(caplog, theirs, lite=lite)
    assert f"this one (mine) {JAVA}Averagely, and theirs {JAVA}AveragelyByCircle. Unless both share" in told


@pytest.mark.parametrize(
    ("theirs", "settings"),
    [
        ({"allocateMessageQueueStrategy": f"{JAVA}Averagely@1f", "PROP_CONSUMEORDERLY": "false"}, {}),
        ({"allocateMessageQueueStrategy": f"{JAVA}ConsistentHash@1f"}, {"allocate_strategy": "consistent_hash"}),
        ({"allocateMessageQueueStrategy": f"{JAVA}ByConfig@1f"}, {"allocate_strategy": AllocateByConfig([])}),
        ({"allocateMessageQueueStrategy": "com.acme.Own@1f"}, {"allocate_strategy": lambda request: request.queues}),
        (
            {"PROP_CONSUMEORDERLY": "true", "messageModel": "BROADCASTING"},
            {"message_model": MessageModel.BROADCASTING, "offset_store": Shelf()},
        ),
        ({"PROP_CONSUMEORDERLY": "true"}, {"lite": True}),
        ({}, {}),
    ],
)
async def test_members_that_work_alike_or_may_differ_are_not_told(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, theirs: dict[str, str], settings: dict[str, Any]
) -> None:
    assert await compared(caplog, theirs, **settings) == []


@pytest.mark.slow
async def test_of_many_members_the_next_one_is_asked_until_it_answers_and_then_only_a_new_next_one(
    autojump_clock: MockClock,
) -> None:
    async with world() as w:
        group = Group(w)
        group.others = {"10.0.0.1:2": "0", "10.0.0.1:3": "~a", "10.0.0.1:4": "~b"}
        consumer = w.consumer()
        consumer.subscribe("Orders", Recorder())
        async with consumer:
            await trio.sleep(50)
            assert group.about == ["~a"] * 2
            group.properties = {}
            await trio.sleep(300)
            assert group.about == ["~a"] * 3
            del group.others["10.0.0.1:3"]
            await trio.sleep(300)
            assert group.about == ["~a"] * 3 + ["~b"]
            del group.others["10.0.0.1:4"]
            await trio.sleep(300)
            assert group.about == ["~a"] * 3 + ["~b", "0"]  # nobody follows, so that the first one does
