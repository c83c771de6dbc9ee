"""A lite pull consumer and a whole cluster, in one loop and in virtual time: ways to get messages, beginnings, ends."""

from __future__ import annotations

import gc
from collections import Counter

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.instance import MQClientInstance
from rocketpy.consumer import LitePullConsumer
from rocketpy.consumer.rebalancing.strategies import AllocateRequest
from rocketpy.errors import (
    ClientClosedError,
    ConfigError,
    NameServerUnreachableError,
    NoPermissionError,
    RequestTimeoutError,
)
from rocketpy.message import Message, MessageQueue
from tests.system.consuming import Recorder, bodies, committed, drain, queues_of, wait_until, world

# --- ways to get messages ---------------------------------------------------------------------------------


async def test_PL8_a_group_shares_the_queues_of_what_is_subscribed(autojump_clock: MockClock) -> None:
    async with world() as w:
        first, second = w.lite(), w.lite()
        for each in (first, second):
            each.subscribe("Orders")
        async with first:
            assert first.assignment == tuple(queues_of(4))
            async with second:
                await wait_until(lambda: len(first.assignment) == len(second.assignment) == 2)
                assert sorted(first.assignment + second.assignment) == queues_of(4)
                sent = await w.send(100)
                got = await drain(first, 50) + await drain(second, 50)
                assert bodies(got) == dict.fromkeys(sent, 1)
            await wait_until(lambda: len(first.assignment) == 4)


async def test_PL8_assigned_queues_are_ours_no_matter_who_else_is_there(autojump_clock: MockClock) -> None:
    async with world() as w:
        one, other = w.lite(), w.lite()
        one.assign([*queues_of(2), *queues_of(2)])
        other.assign(queues_of(2))
        async with one, other:
            assert one.assignment == other.assignment == tuple(queues_of(2))
            await w.send(40)
            assert bodies(await drain(one, 20)) == bodies(await drain(other, 20))
            one.assign(queues_of(4)[1:3])
            await wait_until(lambda: one.assignment == tuple(queues_of(4)[1:3]))
            # The queue that it had goes on where it was; the new one begins where the group begins.
            assert one.position(queues_of(2)[1]) == 10
            assert {message.queue_id for message in await drain(one, 10)} == {2}


async def test_a_group_shares_by_a_strategy_of_its_own(autojump_clock: MockClock) -> None:
    def first_takes_all_but_one(request: AllocateRequest) -> list[MessageQueue]:
        place = request.client_ids.index(request.client_id)
        return list(request.queues[:-1] if place == 0 else request.queues[-1:])

    async with world() as w:
        members = [w.lite(allocate_strategy=first_takes_all_but_one) for _ in range(2)]
        for each in members:
            each.subscribe("Orders")
        async with members[0], members[1]:
            await wait_until(lambda: sorted(len(each.assignment) for each in members) == [1, 3])
            assert sorted(members[0].assignment + members[1].assignment) == queues_of(4)


async def test_PL8_subscribe_and_assign_exclude_each_other(autojump_clock: MockClock) -> None:
    async with world(topics=("Orders", "Bills")) as w:
        consumer = w.lite()
        consumer.subscribe("Orders")
        with pytest.raises(ConfigError, match="either subscribe or assign, and this one has used subscribe"):
            consumer.assign(queues_of(1))
        consumer.subscribe("Bills", tags="paid")
        other = w.lite()
        other.assign(queues_of(1))
        with pytest.raises(ConfigError, match="has used assign: make another consumer to subscribe"):
            other.subscribe("Orders")
        with pytest.raises(ConfigError, match="not subscribed"):
            other.unsubscribe("Orders")
        async with consumer:
            assert {queue.topic for queue in consumer.assignment} == {"Orders", "Bills"}
            consumer.unsubscribe("Bills")
            await wait_until(lambda: {queue.topic for queue in consumer.assignment} == {"Orders"})


async def test_PL8_tags_choose_messages(autojump_clock: MockClock) -> None:
    async with world() as w:
        shared, chosen = w.lite(), w.lite("audit")
        shared.subscribe("Orders", tags="Aa || paid")
        chosen.assign(queues_of(4), tags="paid")
        async with shared, chosen:
            for tags in ("Aa", "BB", "paid", "open"):  # the hash of "BB" is that of "Aa"
                await w.send(10, tags=tags)
            assert Counter(message.tags for message in await drain(shared, 20)) == {"Aa": 10, "paid": 10}
            assert Counter(message.tags for message in await drain(chosen, 10)) == {"paid": 10}
            # What nobody wants is dealt with too, once a broker has said that it holds no more.
            assert await shared.poll(timeout=30) == []
            await shared.commit()
            assert await committed(shared) == [10, 10, 10, 10]


async def test_messages_of_a_queue_come_in_order(autojump_clock: MockClock) -> None:
    async with world() as w:
        consumer = w.lite()
        consumer.subscribe("Orders")
        async with consumer:
            await w.send(400)
            offsets: dict[int, list[int]] = {}
            async for message in consumer:
                offsets.setdefault(message.queue_id, []).append(message.queue_offset)
                if sum(map(len, offsets.values())) == 400:
                    break
            assert offsets == {number: list(range(100)) for number in range(4)}


async def test_a_loop_over_messages_ends_when_the_consumer_closes(autojump_clock: MockClock) -> None:
    async with world() as w:
        got: list[bytes] = []
        ended = trio.Event()

        async def loop(consumer: LitePullConsumer) -> None:
            got.extend([message.body async for message in consumer])
            ended.set()

        async with trio.open_nursery() as nursery:
            async with w.lite() as consumer:
                consumer.subscribe("Orders")
                await consumer.wait_assigned(5)
                nursery.start_soon(loop, consumer)
                sent = await w.send(20)
                await wait_until(lambda: sum(each.next_offset for each in consumer.status().queues.values()) == 20)
                await trio.sleep(1)
            await ended.wait()
        assert Counter(got) == dict.fromkeys(sent, 1)
        with pytest.raises(ClientClosedError, match="is not started"):
            await anext(w.lite())


async def test_two_tasks_may_poll_and_each_message_goes_to_one(autojump_clock: MockClock) -> None:
    async with world() as w:
        consumer = w.lite()
        consumer.subscribe("Orders")
        got: list[list[bytes]] = [[], []]

        async def work(mine: list[bytes]) -> None:
            while True:
                mine += [message.body for message in await consumer.poll(3)]

        async with consumer, trio.open_nursery() as nursery:
            for mine in got:
                nursery.start_soon(work, mine)
            sent = await w.send(200)
            await wait_until(lambda: len(got[0]) + len(got[1]) >= 200)
            nursery.cancel_scope.cancel()
        assert Counter(got[0] + got[1]) == dict.fromkeys(sent, 1)
        assert all(got)


@pytest.mark.slow
async def test_who_is_cancelled_in_a_poll_loses_nothing(autojump_clock: MockClock) -> None:
    async with world() as w:
        consumer = w.lite()
        consumer.subscribe("Orders")
        got: list[bytes] = []
        async with consumer, trio.open_nursery() as nursery:
            nursery.start_soon(w.send, 200)
            while len(got) < 200:
                with trio.move_on_after(0.0007):
                    batch = await consumer.poll(7, timeout=60)
                    got += [message.body for message in batch]
        assert Counter(got) == {b"%d" % number: 1 for number in range(200)}


async def test_a_poll_says_when_nothing_can_come(autojump_clock: MockClock) -> None:
    async with world() as w:
        consumer = w.lite()
        async with consumer:
            with pytest.raises(ConfigError, match=r"call subscribe\(topic\) or assign\(queues\) first"):
                await consumer.poll()
            consumer.subscribe("Orders")
            started = trio.current_time()
            assert await consumer.poll() == []
            assert trio.current_time() - started == pytest.approx(5, abs=0.1)
            assert await consumer.poll(timeout=0) == []
            assert await consumer.poll(timeout=2.5) == []
        with pytest.raises(ClientClosedError):
            await consumer.poll()


@pytest.mark.parametrize("arguments", [{"max_messages": 0}, {"max_messages": True}, {"max_messages": 10**9}])
@pytest.mark.parametrize("timeout", [None, 1])
async def test_arguments_of_a_poll_are_checked(
    autojump_clock: MockClock, arguments: dict[str, int], timeout: float | None
) -> None:
    async with world() as w, w.lite() as consumer:
        consumer.subscribe("Orders")
        with pytest.raises(ConfigError, match="max_messages must be a whole number"):
            await consumer.poll(**arguments, timeout=timeout)
        for wrong in (float("nan"), -1, True, "5"):
            with pytest.raises(ConfigError, match="timeout must be seconds"):
                await consumer.poll(timeout=wrong)  # type: ignore[arg-type]
        for nothing in (None, 5, "Orders", [("Orders", "broker-a", 0)], [MessageQueue("Orders", "broker-a", -1)], []):
            with pytest.raises(ConfigError):
                w.lite().assign(nothing)  # type: ignore[arg-type]


async def test_PL6_lite_pull_can_be_forbidden(autojump_clock: MockClock) -> None:
    async with world(lite_pull_message_enable=False) as w:
        consumer = w.lite()
        consumer.subscribe("Orders")
        async with consumer:
            with pytest.raises(
                NoPermissionError, match=r"litePullMessageEnable.*use PushConsumer or PullConsumer"
            ) as info:
                await consumer.poll(timeout=60)
            assert "lite pull consumers are forbidden at broker-a" in str(info.value)
            assert isinstance(consumer.status().queues[queues_of(1)[0]].error, NoPermissionError)
        async with w.puller() as plain:
            assert (await plain.pull(queues_of(1)[0], 0)).messages == []


# --- beginnings and ends ------------------------------------------------------------------------------------


async def test_a_topic_that_does_not_exist_yet_is_waited_for(autojump_clock: MockClock) -> None:
    async with world() as w:
        consumer = w.lite()
        consumer.subscribe("Later")
        async with consumer:
            with pytest.raises(RequestTimeoutError, match="the topic Later does not exist"):
                await consumer.wait_assigned(5)
            await w.producer.send(Message("Later", b"first"))
            assert [message.body for message in await consumer.poll(timeout=60)] == [b"first"]


async def test_a_mixed_group_shares_its_queues(autojump_clock: MockClock) -> None:
    async with world() as w:
        pushed, lite = w.consumer(), w.lite()
        got = Recorder()
        pushed.subscribe("Orders", got)
        lite.subscribe("Orders")
        async with pushed, lite:
            await wait_until(lambda: len(pushed.assignment) == len(lite.assignment) == 2)
            sent = await w.send(40)
            mine = await drain(lite, 20)
            await got.wait_count(20)
            assert got.bodies + bodies(mine) == dict.fromkeys(sent, 1)


@pytest.mark.slow
async def test_everything_that_it_began_ends_with_it(autojump_clock: MockClock) -> None:
    async with world() as w:
        await trio.sleep(1)
        tasks = trio.lowlevel.current_statistics().tasks_living
        for _ in range(3):
            consumer = w.lite()
            consumer.subscribe("Orders")
            async with consumer:
                await w.send(3)
                await drain(consumer, 3)
            assert consumer.status().state == "closed"
        await trio.sleep(1)
        assert trio.lowlevel.current_statistics().tasks_living == tasks
        gc.collect()


async def test_nothing_of_a_failed_start_is_left_and_it_may_be_tried_again(autojump_clock: MockClock) -> None:
    async with world() as w:
        consumer = w.lite(namesrv="127.0.0.1:1")
        consumer.subscribe("Orders")
        tasks = trio.lowlevel.current_statistics().tasks_living
        for _ in range(2):
            with pytest.raises(NameServerUnreachableError):
                await consumer.__aenter__()
            assert consumer.status().state == "not started"
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living == tasks


async def test_it_may_share_a_client(autojump_clock: MockClock) -> None:
    async with world() as w:
        settings = {"namesrv": w.cluster.name_server_addresses, "network": w.cluster.network}
        async with MQClientInstance(**settings) as client:  # type: ignore[arg-type]
            first, second = LitePullConsumer("billing", client=client), LitePullConsumer("billing", client=client)
            first.subscribe("Orders")
            async with first:
                with pytest.raises(ConfigError, match="has a consumer of the group 'billing' already"):
                    await second.__aenter__()
                assert len(await second.fetch_message_queues("Orders")) == 4
                await w.send(8)
                assert len(await drain(first, 8)) == 8
            with pytest.raises(ConfigError, match="client must be"):
                LitePullConsumer("billing", client=object())  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("assigned", [False, True])
async def test_complaint_21_queues_of_a_broker_that_restarts_are_pulled_again(
    autojump_clock: MockClock, assigned: bool
) -> None:
    async with world(brokers=2, queues=2) as w:
        consumer = w.lite()
        if assigned:
            consumer.assign(await consumer.fetch_message_queues("Orders"))
        else:
            consumer.subscribe("Orders")
        async with consumer:
            sent = await w.send(40)
            got = await drain(consumer, 40)
            await w.cluster.stop_broker(0)
            assert await consumer.poll(timeout=45) == []
            await w.cluster.start_broker(0)
            await trio.sleep(60)
            sent += await w.send(40, start=40)
            with trio.fail_after(90):
                while set(bodies(got)) != set(sent):
                    got += await consumer.poll()
            # Nothing comes twice but what the broker could not be told of while it was away.
            assert len(got) <= len(sent) + 20
            assert len(consumer.assignment) == 4
