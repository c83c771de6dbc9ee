"""What tests of users do with a cluster: put messages in and look at them, on all three kinds."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import rocketpy
import rocketpy.sync
from rocketpy import ConfigError, Message, MessageExt, MessageIllegalError, TopicNotExistError
from rocketpy_broker_sim import AsyncioLocalCluster, BlockingLocalCluster, LocalCluster, WaitTimeoutError
from tests.broker_sim.embedded import reach

# --- topics and messages -------------------------------------------------------------------------------


async def test_a_topic_is_known_everywhere_when_it_is_made(autojump_clock: MockClock) -> None:
    async with LocalCluster(brokers=2, name_servers=2, network="memory", auto_create_topic_enable=False) as cluster:
        await cluster.create_topic("Orders", queues=3)
        for server in cluster.name_servers:
            known = server.routes.queues["Orders"]
            assert {name: queues.write_queue_nums for name, queues in known.items()} == {"broker-a": 3, "broker-b": 3}
        await cluster.create_topic("Orders", queues=5)
        assert cluster.name_servers[1].routes.queues["Orders"]["broker-b"].read_queue_nums == 5
        async with rocketpy.Producer("shop", **reach(cluster)) as producer:
            await producer.send(Message("Orders", b"one coffee"))


async def test_messages_are_put_in_turn_and_found_in_the_order_of_their_storing(autojump_clock: MockClock) -> None:
    async with LocalCluster(brokers=2, network="memory") as cluster:
        await cluster.create_topic("Orders", queues=2)
        ids = []
        for number in range(8):
            ids.append(await cluster.send(Message("Orders", b"%d" % number, tags="created", keys=["k"])))
            await trio.sleep(0.01)
        found = cluster.messages("Orders")
        assert [message.message_id for message in found] == ids
        assert [message.body for message in found] == [b"%d" % number for number in range(8)]
        assert {(message.tags, *message.keys) for message in found} == {("created", "k")}
        assert {(message.broker_name, message.queue_id) for message in found} == {
            ("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1),
        }  # fmt: skip
        assert cluster.messages("Payments") == []


async def test_equal_sharding_keys_share_a_queue(autojump_clock: MockClock) -> None:
    async with LocalCluster(brokers=2, network="memory") as cluster:
        for number in range(12):
            await cluster.send(Message("Orders", b"x", sharding_key=str(number % 3)))
        queues = {(m.system_properties["__SHARDINGKEY"], m.broker_name, m.queue_id) for m in cluster.messages("Orders")}
        assert len(queues) == 3


async def test_many_messages_of_a_queue(autojump_clock: MockClock) -> None:
    async with LocalCluster(network="memory") as cluster:
        for number in range(100):
            await cluster.send(Message("Orders", b"%d" % number, sharding_key="one"))
        assert [m.body for m in cluster.messages("Orders")] == [b"%d" % number for number in range(100)]


async def test_what_a_cluster_does_not_take(autojump_clock: MockClock) -> None:
    async with LocalCluster(network="memory", auto_create_topic_enable=False) as cluster:
        with pytest.raises(TopicNotExistError, match="create the topic first"):
            await cluster.send(Message("Orders", b"x"))
        await cluster.create_topic("Orders")
        with pytest.raises(MessageIllegalError, match="timerMaxDelaySec"):
            await cluster.send(Message("Orders", b"x", delay=3_000_000))
        with pytest.raises(ConfigError, match="1 to 1024"):
            await cluster.create_topic("Orders", queues=0)
        with pytest.raises(ConfigError, match="characters"):
            await cluster.create_topic("Or ders")
        await cluster.stop_broker(0)
        assert cluster.messages("Orders") == []
        with pytest.raises(ConfigError, match="no broker is running"):
            await cluster.send(Message("Orders", b"x"))
        with pytest.raises(ConfigError, match="no broker is running"):
            await cluster.create_topic("Payments")


# --- the three clusters --------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [BlockingLocalCluster, AsyncioLocalCluster])
def test_the_clusters_have_the_same_names_and_parameters(other: type) -> None:
    shared = {name for name, found in vars(LocalCluster).items() if inspect.isfunction(found) and name[0] != "_"}
    shared -= {"run", "wait_registered"}
    assert len(shared) == 20, shared
    for name in shared:
        ours, theirs = inspect.signature(getattr(LocalCluster, name)), inspect.signature(getattr(other, name))
        assert list(ours.parameters.values()) == list(theirs.parameters.values()), name


def test_everything_on_the_blocking_cluster() -> None:
    with BlockingLocalCluster() as cluster:
        with rocketpy.sync.Producer("shop", namesrv=cluster.name_server_addresses) as producer:
            cluster.create_topic("Orders")
            cluster.refuse_sends()
            producer.send(Message("Orders", b"1"))
            cluster.delay_sends(0.01)
            cluster.lose_answers(broker=0)
            cluster.heal()
            assert cluster.cut_connections() == 1
            producer.send(Message("Orders", b"2"))
        assert cluster.send(Message("Orders", b"3")) in {m.message_id for m in cluster.messages("Orders")}
        assert len(cluster.wait_messages("Orders", 3)) == 3
        failing = {b"2"}

        def listener(message: MessageExt) -> None:
            if message.body in failing:
                raise ValueError("not this one")

        settings = {"namesrv": cluster.name_server_addresses, "max_reconsume_times": 0}
        with rocketpy.sync.PushConsumer("billing", **settings) as push:
            push.subscribe("Orders", listener)
            cluster.wait_consumed("billing", "Orders")
            [dead] = cluster.wait_dead_letters("billing")
            assert cluster.queue_locks("billing") == {}
        assert dead.body == b"2"
        with rocketpy.sync.PushConsumer("ledger", namesrv=cluster.name_server_addresses, orderly=True) as push:
            push.subscribe("Orders", listener)
            push.wait_assigned(20)
            locks = cluster.queue_locks("ledger")
            assert {queue for queue in locks if queue.topic == "Orders"} == set(push.assignment)
            assert {lock.client_id for lock in locks.values()} == {push.status().client_id}
            assert all(0 < lock.expires_in <= 60 for lock in locks.values())
        assert cluster.queue_locks("ledger") == {}
        assert len(cluster.dead_letters("billing")) == 1
        with pytest.raises(WaitTimeoutError, match="has 3 of 4"):
            cluster.wait_messages("Orders", 4, timeout=0)


@pytest.mark.waits("what was gone is dialled again after a while, in real time")
def test_everything_on_the_asyncio_cluster() -> None:
    import asyncio

    async def main() -> None:
        async with AsyncioLocalCluster(brokers=2) as cluster:
            assert len(cluster.broker_addresses) == 2
            await cluster.create_topic("Orders")
            cluster.refuse_sends()
            cluster.delay_sends(0.01)
            cluster.lose_answers()
            cluster.heal()
            assert await cluster.cut_connections(0) == await cluster.cut_connections() == 0
            waiting = asyncio.create_task(cluster.wait_messages("Orders", 2))
            await cluster.send(Message("Orders", b"1"))
            await cluster.stop_broker(1)
            await cluster.start_broker(1)
            await cluster.kill_broker(1)
            await cluster.restart_broker(0)
            await cluster.restart_name_server(0)
            await cluster.stop_name_server(0)
            await cluster.start_name_server(0)
            await cluster.send(Message("Orders", b"2"))
            assert len(await waiting) == len(await cluster.messages("Orders")) == 2
            assert await cluster.dead_letters("billing") == []
            assert await cluster.queue_locks("billing") == {}
            with pytest.raises(WaitTimeoutError, match="billing has not consumed"):
                await cluster.wait_consumed("billing", "Orders", timeout=0)
            with pytest.raises(WaitTimeoutError, match="DLQ"):
                await cluster.wait_dead_letters("billing", timeout=0)

    asyncio.run(main())


def test_who_gives_up_waiting_on_asyncio_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    cluster = AsyncioLocalCluster()
    wait, began, ended = cluster.blocking.trio_cluster.wait_messages, threading.Event(), threading.Event()

    async def watched(*args: Any, **more: Any) -> list[MessageExt]:
        began.set()
        try:
            return await wait(*args, **more)
        finally:
            ended.set()

    async def main() -> None:
        monkeypatch.setattr(cluster.blocking.trio_cluster, "wait_messages", watched)
        waiting = asyncio.create_task(cluster.wait_messages("Orders", timeout=600))
        assert await asyncio.to_thread(began.wait, 20)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await asyncio.to_thread(ended.wait, 20)
        monkeypatch.undo()
        await cluster.send(Message("Orders", b"1"))
        assert len(await cluster.wait_messages("Orders")) == 1

    with cluster.blocking:
        asyncio.run(main())
        asyncio.run(cluster.wait_messages("Orders"))  # another loop, the same cluster


@pytest.mark.parametrize("is_late", [False, True])
def test_a_start_that_is_given_up_on_asyncio_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    import asyncio

    cluster = AsyncioLocalCluster()
    start, began, given_up = cluster.blocking.start, threading.Event(), threading.Event()

    def start_meanwhile() -> BlockingLocalCluster:
        started = start() if is_late else None
        began.set()
        assert given_up.wait(20)
        return started or start()

    async def main() -> None:
        async def enter() -> None:
            async with cluster:
                raise AssertionError("it was cancelled before")

        entering = asyncio.create_task(enter())
        await asyncio.to_thread(began.wait, 20)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        given_up.set()

    monkeypatch.setattr(cluster.blocking, "start", start_meanwhile)
    asyncio.run(main())
    monkeypatch.undo()
    with cluster.blocking:  # which refuses to start what runs
        assert cluster.broker_addresses
