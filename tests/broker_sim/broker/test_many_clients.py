"""Clients of very many groups, groups of very many clients, and clients that go while they are being noted."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.errors import BrokerError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.bodies.groups import GetConsumerListByGroupResponseBody, SubscriptionGroupConfig
from rocketpy.wire.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from rocketpy.wire.bodies.subscription import SubscriptionData
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.hosts import parse_address
from rocketpy.wire.serialize import encode_command
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.broker.tables.consumers import ConsumerTable
from rocketpy_broker_sim.broker.tables.producers import ProducerTable
from rocketpy_broker_sim.broker.tables.subscriptions import SubscriptionGroupTable
from rocketpy_broker_sim.broker.to_clients.notifications import REST_PER_MEMBER, SMALL, Notices
from rocketpy_broker_sim.config import BrokerConfig
from rocketpy_broker_sim.serving.slices import SLICE_SECONDS, Slices, Steadily
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import Client, broker_and_client, client_of, heartbeat
from tests.broker_sim.broker.support import Clock, FakeChannel, client, consumer


def consumers(count: int) -> HeartbeatData:
    groups = [
        ConsumerData(group_name=f"g{n}", subscription_data_set=[SubscriptionData(topic="T")]) for n in range(count)
    ]
    return HeartbeatData(client_id="c", consumer_data_set=groups)


def producers(count: int) -> HeartbeatData:
    return HeartbeatData(client_id="c", producer_data_set=[ProducerData(group_name=f"p{n}") for n in range(count)])


async def beside(network: MemoryNetwork, address: str, work: Callable[[], object]) -> int:
    """How many questions of another connection are answered while one is worked on."""
    answered = 0
    async with client_of(network, address) as other, trio.open_nursery() as nursery:

        async def run() -> None:
            await work()
            nursery.cancel_scope.cancel()

        nursery.start_soon(run)
        while True:
            answer = await other.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})
            assert answer.code == ResponseCode.SUCCESS
            answered += 1
    return answered


# --- heartbeats ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("data", [consumers(20_000), producers(90_000)], ids=["groups", "producers"])
async def test_a_heartbeat_of_more_groups_than_a_client_may_be_in_is_refused_and_nothing_of_it_noted(
    autojump_clock: MockClock, data: HeartbeatData
) -> None:
    async with broker_and_client() as (broker, client):
        before = len(broker.groups), len(broker.topics.all())
        answer = await client.ask(RequestCode.HEART_BEAT, body=data.encode())
        assert answer.code in (ResponseCode.INVALID_PARAMETER, ResponseCode.SYSTEM_ERROR)
        assert (len(broker.groups), len(broker.topics.all())) == before
        assert broker.clients.consumers.groups() == []
        assert broker.clients.producers.groups() == []
        assert (await client.heartbeat("g", "T")).code == ResponseCode.SUCCESS


@pytest.mark.slow
@pytest.mark.parametrize("data", [consumers(2000), producers(2000)], ids=["groups", "producers"])
async def test_others_are_answered_while_a_heartbeat_of_very_many_groups_is_noted(
    autojump_clock: MockClock, data: HeartbeatData
) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, client):
        broker.slices._clock = Steadily(SLICE_SECONDS / 20)
        answers: list[RemotingCommand] = []

        async def work() -> None:
            answers.append(await client.ask(RequestCode.HEART_BEAT, body=data.encode()))

        assert await beside(network, broker.address, work) >= 10
        assert answers[0].code == ResponseCode.SUCCESS
        assert len(broker.clients.consumers.groups()) + len(broker.clients.producers.groups()) == 2000


async def test_too_many_subscriptions_are_refused(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        answer = await client.heartbeat("g", *(f"T{n}" for n in range(2049)))
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert "2049 topics" in (answer.remark or "")
        assert broker.clients.consumers.group("g") is None


@pytest.mark.slow
def test_groups_are_made_in_time_that_does_not_grow_with_those_that_are_there() -> None:
    def seconds(there: int) -> float:
        table = SubscriptionGroupTable(BrokerConfig(), MemoryStorage())
        table.put_all([SubscriptionGroupConfig(group_name=f"there-{n}") for n in range(there)])
        began = time.thread_time()
        for n in range(200):
            table.put(SubscriptionGroupConfig(group_name=f"new-{n}"))
        return time.thread_time() - began

    few, many = (min(seconds(there) for _ in range(3)) for there in (100, 20_000))
    assert many < 20 * few


@pytest.mark.parametrize("kind", ["consumers", "producers"])
def test_memberships_have_a_bound_for_each_client_and_for_all(kind: str) -> None:
    config = BrokerConfig(max_groups_per_client=3, max_memberships=5)
    clock = Clock()
    a, b = FakeChannel("a"), FakeChannel("b")
    table = (
        ConsumerTable(config, clock=clock, notify=lambda group: None)
        if kind == "consumers"
        else ProducerTable(config, clock=clock)
    )

    def join(channel: FakeChannel, group: str) -> None:
        if isinstance(table, ConsumerTable):
            table.register(group, client(channel), consumer("T"))
        else:
            table.register(group, client(channel))

    for n in range(3):
        join(a, f"g{n}")
    with pytest.raises(BrokerError, match="the client is in 3 groups"):
        join(a, "g3")
    join(a, "g1")
    join(b, "g0")
    join(b, "g1")
    with pytest.raises(BrokerError, match="5 groups together"):
        join(b, "g2")
    assert {each.channel for each in table.clients("g2")} == {a}
    assert table.clients("g3") == []
    run_steps(table.on_close(a))
    for n in (2, 3, 4):
        join(FakeChannel(f"c{n}"), "g2")
    table.unregister("g0", b)
    join(b, "g5")
    with pytest.raises(BrokerError, match="5 groups together"):
        join(b, "g6")


# --- clients that go -----------------------------------------------------------------------------------


async def close(network: MemoryNetwork, stream: trio.abc.Stream) -> None:
    await stream.aclose()


async def cut(network: MemoryNetwork, stream: trio.abc.Stream) -> None:
    network.links()[-1].cut()
    await trio.lowlevel.checkpoint()


async def send_no_frame(network: MemoryNetwork, stream: trio.abc.Stream) -> None:
    await stream.send_all(b"\xff" * 64)


@pytest.mark.parametrize("end", [close, cut, send_no_frame])
async def test_heartbeats_that_wait_when_their_connection_ends_leave_no_member(
    autojump_clock: MockClock, end: Callable[[MemoryNetwork, trio.abc.Stream], Awaitable[None]]
) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, _):
        lane = broker.lanes._lanes["heartbeat"]
        lane.used = lane.budget = 1
        for n in range(50):
            stream = await network.open_stream(*parse_address(broker.address))
            beat = RemotingCommand.oneway(RequestCode.HEART_BEAT, {}, heartbeat("g", "T", client_id=f"c{n}").encode())
            await stream.send_all(encode_command(beat))
            if n % 2:
                await wait_all_tasks_blocked()
            await end(network, stream)
        await trio.sleep(1)
        await wait_all_tasks_blocked()
        assert lane.waiting == 0
        assert broker.clients.consumers.client_ids("g") == []
        assert broker.clients.producers.groups() == []
        assert not broker.lanes._lines


async def test_a_goodbye_comes_after_the_heartbeats_that_were_sent_before_it(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.heartbeat("g", "T")
        lane = broker.lanes._lanes["heartbeat"]
        lane.used = lane.budget = 1
        fields = {"clientID": "c1", "producerGroup": "p", "consumerGroup": "g"}
        for _ in range(5):
            client.connection.send_oneway(
                RemotingCommand.oneway(RequestCode.HEART_BEAT, {}, heartbeat("g", "T").encode())
            )
        assert (await client.ask(RequestCode.UNREGISTER_CLIENT, fields)).code == ResponseCode.SUCCESS
        await trio.sleep(1)
        assert broker.clients.consumers.client_ids("g") == []
        assert broker.clients.producers.groups() == []


@pytest.mark.slow
async def test_a_connection_of_very_many_groups_that_closes_holds_up_nobody(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, _):
        broker.slices._clock = Steadily(SLICE_SECONDS / 20)
        async with client_of(network, broker.address) as going:
            await going.ask(RequestCode.HEART_BEAT, body=consumers(2000).encode())
            await going.ask(RequestCode.HEART_BEAT, body=producers(2000).encode())

        async def gone() -> None:
            while broker.clients.consumers.groups() or broker.clients.producers.groups():
                await trio.lowlevel.checkpoint()

        assert await beside(network, broker.address, gone) >= 10


# --- groups of very many members -----------------------------------------------------------------------


@pytest.mark.slow
async def test_a_large_group_is_told_once_of_many_changes_and_of_the_last_one(autojump_clock: MockClock) -> None:
    network, count = MemoryNetwork(), 120
    async with broker_and_client(network) as (broker, _), AsyncExitStack() as stack:
        members: list[Client] = []
        for n in range(count):
            member = await stack.enter_async_context(client_of(network, broker.address))
            await member.heartbeat("g", "T", client_id=f"c{n}")
            members.append(member)
        before = [len(member.received) for member in members]
        await trio.sleep(1)
        after = [len(member.received) for member in members]
        assert all(now > then for now, then in zip(after, before, strict=True))
        # Each of the joins told to everybody would be 7,260 notices.
        assert sum(after) < SMALL * SMALL + 5 * count
        await trio.sleep(60)
        assert [len(member.received) for member in members] == after
        listed = await members[0].ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
        found = GetConsumerListByGroupResponseBody.decode(listed.body).consumer_id_list
        assert found == [f"c{n}" for n in range(count)]


class Member:
    """A connection that reads when it is told to."""

    address = "peer:1"
    is_open = True

    def __init__(self) -> None:
        self.is_full = False
        self.told: list[str] = []
        self.reads = trio.Event()

    def send_oneway(self, command: RemotingCommand) -> None:
        self.told.append(command.ext_fields["consumerGroup"])

    async def wait_writable(self) -> None:
        await self.reads.wait()


async def test_a_member_that_does_not_read_is_owed_one_notice_of_each_group(autojump_clock: MockClock) -> None:
    slow, quick = Member(), Member()
    slow.is_full = True
    notices = Notices(lambda group: [slow, quick], Slices())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notices.serve)
        for _ in range(10):
            notices.changed("g")
            notices.changed("h")
        await wait_all_tasks_blocked()
        assert slow.told == []
        assert len(quick.told) == 20
        slow.is_full = False
        slow.reads.set()
        await wait_all_tasks_blocked()
        assert sorted(slow.told) == ["g", "h"]
        notices.changed("g")
        assert slow.told[2:] == ["g"]
        nursery.cancel_scope.cancel()


async def test_a_large_group_rests_between_notices_and_the_last_change_is_told(autojump_clock: MockClock) -> None:
    members, slices = [Member() for _ in range(1000)], Slices()
    notices = Notices(lambda group: members, slices)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notices.serve)
        nursery.start_soon(slices.serve)
        for _ in range(50):
            notices.changed("g")
            await trio.sleep(0.1)
        await trio.sleep(1000 * REST_PER_MEMBER + 0.1)
        told = {len(member.told) for member in members}
        assert len(told) == 1
        assert 5 <= told.pop() <= 7
        nursery.cancel_scope.cancel()


def test_the_list_of_members_is_written_once_for_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ConsumerTable(BrokerConfig(), clock=Clock(), notify=lambda group: None)
    channels = [FakeChannel(f"{n:04}") for n in range(200)]
    for channel in channels:
        table.register("g", client(channel), consumer("T"))
    first = table.encoded_ids("g")
    assert table.encoded_ids("g") is first
    table.register("g", client(channels[0]), consumer("T"))
    assert table.encoded_ids("g") is first
    table.unregister("g", channels[0])
    assert table.encoded_ids("g") == GetConsumerListByGroupResponseBody(consumer_id_list=table.client_ids("g")).encode()
    for channel in channels[1:]:
        table.unregister("g", channel)
    assert table.encoded_ids("g") is None
    for channel in channels:
        table.register("g", client(channel), consumer("T"))
    assert table.encoded_ids("g") == first
    assert table.encoded_ids("nobody") is None
