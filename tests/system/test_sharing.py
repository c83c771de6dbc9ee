"""Several consumers of a group: they share the queues evenly as members come and go, and nothing is missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import AsyncExitStack

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer.push import PushConsumer
from rocketpy.consumer.rebalancing.strategies import AllocateByConfig, AllocateRequest, AllocateStrategy
from rocketpy.message import MessageQueue
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.results import ConsumeFromWhere
from tests.system.consuming import Recorder, World, wait_until, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def member(w: World, listener: Recorder, **settings: object) -> PushConsumer:
    consumer = w.consumer(consume_from_where=FIRST, **settings)
    consumer.subscribe("Orders", listener)
    return consumer


def shares(consumers: list[PushConsumer]) -> list[int]:
    return sorted(len(consumer.assignment) for consumer in consumers)


def is_partition(consumers: list[PushConsumer], count: int) -> bool:
    """Every queue belongs to exactly one of them."""
    owned = [queue for consumer in consumers for queue in consumer.assignment]
    return len(owned) == len(set(owned)) == count


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["averagely", "by_circle"])
@pytest.mark.parametrize("members", [2, 4])
async def test_RB2_consumers_share_evenly(autojump_clock: MockClock, members: int, strategy: str) -> None:
    async with world(queues=8) as w, AsyncExitStack() as stack:
        got = [Recorder() for _ in range(members)]
        consumers = [await stack.enter_async_context(member(w, each, allocate_strategy=strategy)) for each in got]
        await wait_until(lambda: shares(consumers) == [8 // members] * members)
        assert is_partition(consumers, 8)
        sent = await w.send(400)
        await wait_until(lambda: sum(len(each.messages) for each in got) >= 400)
        assert sum((each.bodies for each in got), start=Counter()) == dict.fromkeys(sent, 1)
        for each in got:
            assert len(each.messages) == pytest.approx(400 / members, rel=0.1)


async def test_RB2_more_members_than_queues(autojump_clock: MockClock) -> None:
    async with world(queues=2) as w, AsyncExitStack() as stack:
        got = Recorder()
        consumers = [await stack.enter_async_context(member(w, got)) for _ in range(3)]
        await wait_until(lambda: shares(consumers) == [0, 1, 1])
        sent = await w.send(20)
        await got.wait_count(20)
        assert got.bodies == dict.fromkeys(sent, 1)


async def test_RB2_queues_of_several_brokers(autojump_clock: MockClock) -> None:
    async with world(brokers=2, queues=3) as w, AsyncExitStack() as stack:
        got = Recorder()
        consumers = [await stack.enter_async_context(member(w, got)) for _ in range(2)]
        await wait_until(lambda: is_partition(consumers, 6) and shares(consumers) == [3, 3])
        sent = await w.send(60)
        await got.wait_count(60)
        assert got.bodies == dict.fromkeys(sent, 1)


@pytest.mark.parametrize("joining", [1, 2])
async def test_RB3_members_join(autojump_clock: MockClock, joining: int) -> None:
    async with world(queues=6) as w, AsyncExitStack() as stack:
        got = Recorder()
        consumers = [await stack.enter_async_context(member(w, got))]
        sent = await w.send(60)
        for _ in range(joining):
            consumers.append(await stack.enter_async_context(member(w, got)))
            sent += await w.send(60, start=len(sent))
        # They hear of each other at once, not at the next interval.
        joined = trio.current_time()
        await wait_until(
            lambda: is_partition(consumers, 6) and shares(consumers) == [6 // (joining + 1)] * (joining + 1)
        )
        assert trio.current_time() - joined < 2
        sent += await w.send(60, start=len(sent))
        await wait_until(lambda: set(got.bodies) == set(sent))


@pytest.mark.parametrize("leaving", [1, 2])
async def test_RB3_members_leave(autojump_clock: MockClock, leaving: int) -> None:
    async with world(queues=6) as w, AsyncExitStack() as stack:
        got = Recorder()
        stays = await stack.enter_async_context(member(w, got))
        others = AsyncExitStack()
        consumers = [await others.enter_async_context(member(w, got)) for _ in range(leaving)]
        await wait_until(lambda: is_partition([stays, *consumers], 6))
        sent = await w.send(120)
        await wait_until(lambda: set(got.bodies) == set(sent))
        # A queue that goes from one member to another goes on where it was committed, and that is every five seconds.
        await trio.sleep(6)
        await others.aclose()
        left = trio.current_time()
        await wait_until(lambda: len(stays.assignment) == 6)
        assert trio.current_time() - left < 2
        sent += await w.send(60, start=len(sent))
        await wait_until(lambda: set(got.bodies) == set(sent))
        # A member that leaves in good order has committed everything: nothing comes twice.
        await trio.sleep(30)
        assert got.bodies == dict.fromkeys(sent, 1)


class Leash:
    """The network of one client, which can be taken away from it."""

    def __init__(self, network: MemoryNetwork) -> None:
        self._network = network
        self._before = set(network.links())
        self.local_ip = network.local_ip
        self.gone = False

    async def open_stream(self, host: str, port: int) -> trio.abc.Stream:
        if self.gone:
            raise OSError("there is no network")
        return await self._network.open_stream(host, port)

    def take_away(self, how: str) -> None:
        """As a process that is killed does, or as a machine that loses its power."""
        self.gone = True
        for link in self._network.links():
            if link not in self._before:
                link.cut() if how == "killed" else link.pause()


@pytest.mark.parametrize(("how", "within"), [("killed", 2), ("powerless", 200)])
async def test_RB3_a_member_that_crashes_is_missed(autojump_clock: MockClock, how: str, within: float) -> None:
    async with world(queues=4) as w, AsyncExitStack() as stack:
        got = Recorder()
        stays = await stack.enter_async_context(member(w, got))
        leash = Leash(w.cluster.network)
        crashes = await stack.enter_async_context(member(w, got, network=leash, await_termination=0))
        await wait_until(lambda: shares([stays, crashes]) == [2, 2])
        leash.take_away(how)
        sent = await w.send(80)
        await wait_until(lambda: len(stays.assignment) == 4, within=within)
        await wait_until(lambda: set(got.bodies) == set(sent))


@pytest.mark.slow
async def test_RB3_members_join_and_leave_all_the_time(autojump_clock: MockClock) -> None:
    async with world(brokers=2, queues=4) as w:
        got = Recorder()
        sent: list[bytes] = []

        async def come_and_go(seconds: float) -> None:
            async with member(w, got):
                await trio.sleep(seconds)

        async with member(w, got) as stays:
            async with trio.open_nursery() as nursery:
                for turn in range(12):
                    nursery.start_soon(come_and_go, 3 + turn % 5)
                    sent += await w.send(20, start=len(sent))
                    await trio.sleep(2)
            await wait_until(lambda: len(stays.assignment) == 8)
            await wait_until(lambda: set(got.bodies) == set(sent))


async def test_RB5_brokers_hear_of_members_and_tell_the_others(autojump_clock: MockClock) -> None:
    async with world() as w, AsyncExitStack() as stack:
        got = Recorder()
        first = await stack.enter_async_context(member(w, got, rebalance_interval=3000))
        assert len(first.assignment) == 4
        async with member(w, got, rebalance_interval=3000) as second:
            await wait_until(lambda: shares([first, second]) == [2, 2], within=2)
            broker = w.cluster.brokers[0]
            known = {channel.client_id for channel in broker.clients.consumers.clients("billing")}
            assert known == {first.client.client_id, second.client.client_id}
        await wait_until(lambda: len(first.assignment) == 4, within=2)


@pytest.mark.slow
async def test_RB5_members_stay_known_by_their_heartbeats(autojump_clock: MockClock) -> None:
    async with world() as w:
        async with member(w, Recorder()) as consumer:
            await trio.sleep(1000)
            assert len(consumer.assignment) == 4
            assert consumer.status().balanced
            broker = w.cluster.brokers[0]
            assert [each.client_id for each in broker.clients.consumers.clients("billing")] == [
                consumer.client.client_id
            ]


async def test_queues_that_are_added_are_consumed(autojump_clock: MockClock) -> None:
    async with world(queues=2) as w:
        got = Recorder()
        async with member(w, got, poll_name_server_interval=5) as consumer:
            assert len(consumer.assignment) == 2
            await w.producer.create_topic("Orders", queues=6)
            await wait_until(lambda: len(consumer.assignment) == 6)
            await w.producer.client.routes.refresh("Orders")
            sent = await w.send(60)
            await got.wait_count(60)
            assert got.bodies == dict.fromkeys(sent, 1)
            assert {message.queue_id for message in got.messages} == set(range(6))


@pytest.mark.parametrize("pause", [0.0, 45.0])
async def test_a_broker_that_restarts_is_consumed_again(autojump_clock: MockClock, pause: float) -> None:
    async with world(brokers=2, queues=2) as w:
        got = Recorder()
        async with member(w, got) as consumer:
            sent = await w.send(40)
            await got.wait_count(40)
            await w.cluster.stop_broker(0)
            await trio.sleep(pause)
            await w.cluster.start_broker(0)
            await trio.sleep(60)
            sent += await w.send(40, start=40)
            await wait_until(lambda: set(got.bodies) == set(sent), within=90)
            assert len(consumer.assignment) == 4


async def test_name_servers_that_are_away_do_not_matter_to_what_runs(autojump_clock: MockClock) -> None:
    async with world() as w:
        got = Recorder()
        async with member(w, got) as consumer:
            await w.cluster.stop_name_server(0)
            sent = await w.send(20)
            await got.wait_count(20)
            await trio.sleep(120)
            sent += await w.send(20, start=20)
            await got.wait_count(40)
            assert got.bodies == dict.fromkeys(sent, 1)
            assert len(consumer.assignment) == 4


async def test_RB1_a_strategy_that_fails_changes_nothing(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    good = AllocateByConfig([MessageQueue("Orders", "broker-a", 1), MessageQueue("Orders", "broker-a", 2)])
    answers: list[AllocateStrategy] = [good]

    def by_hand(request: AllocateRequest) -> Iterable[MessageQueue]:
        return answers[-1](request)

    async with world() as w:
        got = Recorder()
        async with member(w, got, allocate_strategy=by_hand) as consumer:
            assert [queue.queue_id for queue in consumer.assignment] == [1, 2]
            answers.append(lambda request: [MessageQueue("Orders", "broker-z", 9)])
            await trio.sleep(60)
            assert [queue.queue_id for queue in consumer.assignment] == [1, 2]
            assert "broker-z" in str(consumer.status().errors["Orders"])
            told = [record for record in caplog.records if "allocate_strategy" in record.message]
            assert told
            assert all(record.levelname == "ERROR" and record.exc_info for record in told)
            await w.send(8)
            await got.wait_count(4)
            answers.append(lambda request: request.queues)
            await wait_until(lambda: len(consumer.assignment) == 4)
            await got.wait_count(8)
            assert consumer.status().errors == {}
