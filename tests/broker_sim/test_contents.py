"""What tests of users do with a cluster: put messages in, look at them, wait, let sends go wrong."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import rocketpy
import rocketpy.sync
from rocketpy import ConfigError, Message, MessageExt, RetryLater, SendError, TopicNotExistError
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim import AsyncioLocalCluster, BlockingLocalCluster, LocalCluster, WaitTimeoutError
from rocketpy_broker_sim.cluster.contents import Contents


def reach(cluster: LocalCluster) -> dict[str, Any]:
    return {"namesrv": cluster.name_server_addresses, "network": cluster.network}


@asynccontextmanager
async def consumer(cluster: LocalCluster, listener: Any, **settings: Any) -> AsyncIterator[rocketpy.PushConsumer]:
    async with rocketpy.PushConsumer("billing", **reach(cluster), **settings) as made:
        made.subscribe("Orders", listener)
        yield made


async def nothing(message: MessageExt) -> None:
    pass


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
        queues = {(m.properties["__SHARDINGKEY"], m.broker_name, m.queue_id) for m in cluster.messages("Orders")}
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
        with pytest.raises(ConfigError, match="delay_level"):
            await cluster.send(Message("Orders", b"x", delay=3))
        with pytest.raises(ConfigError, match="1 to 1024"):
            await cluster.create_topic("Orders", queues=0)
        with pytest.raises(ConfigError, match="characters"):
            await cluster.create_topic("Or ders")
        await cluster.stop_broker(0)
        assert cluster.messages("Orders") == []
        with pytest.raises(ConfigError, match="no broker runs"):
            await cluster.send(Message("Orders", b"x"))
        with pytest.raises(ConfigError, match="no broker runs"):
            await cluster.create_topic("Payments")


# --- waiting for messages ------------------------------------------------------------------------------


async def test_waiting_for_messages_across_a_restart(autojump_clock: MockClock) -> None:
    async with LocalCluster(network="memory") as cluster, trio.open_nursery() as nursery:
        found: list[MessageExt] = []

        async def wait() -> None:
            found.extend(await cluster.wait_messages("Orders", 3, timeout=60))

        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await cluster.send(Message("Orders", b"1"))
        await trio.sleep(1)
        await cluster.restart_broker(0)
        await cluster.send(Message("Orders", b"2"))
        await trio.sleep(1)
        assert found == []
        await cluster.send(Message("Orders", b"3"))
        await trio.sleep(0.001)
        assert sorted(message.body for message in found) == [b"1", b"1", b"2", b"2", b"3", b"3"]


async def test_waiting_for_messages_ends_and_says_what_there_is(autojump_clock: MockClock) -> None:
    async with LocalCluster(network="memory") as cluster:
        await cluster.send(Message("Orders", b"1"))
        began = trio.current_time()
        with pytest.raises(WaitTimeoutError, match=r"Orders has 1 of 2 messages after 3 s, the last") as caught:
            await cluster.wait_messages("Orders", 2, timeout=3)
        assert trio.current_time() - began == pytest.approx(3)
        assert caught.value.missing == (repr(cluster.messages("Orders")[0]),)
        assert caught.value.timeout == 3
        assert isinstance(caught.value, TimeoutError)
        with pytest.raises(WaitTimeoutError, match=r"has 0 of 1 messages after 0 s$"):
            await cluster.wait_dead_letters("billing", timeout=0)


async def test_a_delayed_message_comes_when_virtual_time_has_passed(autojump_clock: MockClock) -> None:
    async with LocalCluster(network="memory") as cluster:
        await cluster.send(Message("Orders", b"later", delay_level=14))
        assert cluster.messages("Orders") == []
        began = trio.current_time()
        [message] = await cluster.wait_messages("Orders", timeout=700)
        assert trio.current_time() - began == pytest.approx(600, abs=2)
        assert message.store_timestamp - message.born_timestamp == pytest.approx(600_000, abs=2000)


# --- waiting for consumers -----------------------------------------------------------------------------


async def test_waiting_until_all_is_consumed_takes_no_longer_than_the_consumer(autojump_clock: MockClock) -> None:
    consumed = []

    async def listener(message: MessageExt) -> None:
        await trio.sleep(0.1)
        consumed.append(message.body)

    async with LocalCluster(brokers=2, network="memory") as cluster:
        await cluster.create_topic("Orders")
        async with consumer(cluster, listener, persist_consumer_offset_interval=600.0):
            for number in range(40):
                await cluster.send(Message("Orders", b"%d" % number))
            began = trio.current_time()
            await cluster.wait_consumed("billing", "Orders", timeout=60)
            assert len(consumed) == 40
            assert trio.current_time() - began < 5
            await cluster.wait_consumed("billing", "Orders", timeout=0)


async def test_what_is_tried_again_is_waited_for(autojump_clock: MockClock) -> None:
    tries = []

    async def listener(message: MessageExt) -> RetryLater | None:
        tries.append(message.reconsume_times)
        return RetryLater() if len(tries) < 3 else None

    async with LocalCluster(network="memory") as cluster:
        await cluster.create_topic("Orders")
        async with consumer(cluster, listener):
            await cluster.send(Message("Orders", b"1"))
            with pytest.raises(WaitTimeoutError, match="waits for its time") as caught:
                await cluster.wait_consumed("billing", "Orders", timeout=5)
            assert "delay level 3" in str(caught.value)
            assert "members of the group now: 127.0.0.1@" in str(caught.value)
            await cluster.wait_consumed("billing", "Orders", timeout=120)
        assert tries == [0, 1, 2]
        assert cluster.dead_letters("billing") == []


async def test_dead_letters_are_done_with(autojump_clock: MockClock) -> None:
    async def listener(message: MessageExt) -> None:
        raise ValueError("never")

    async with LocalCluster(network="memory") as cluster:
        await cluster.create_topic("Orders")
        async with consumer(cluster, listener, max_reconsume_times=2):
            await cluster.send(Message("Orders", b"poison"))
            [message] = await cluster.wait_dead_letters("billing", timeout=600)
            assert message.body == b"poison"
            await cluster.wait_consumed("billing", "Orders", timeout=10)
        assert len(cluster.dead_letters("billing")) == 1


async def test_what_is_missing_is_told_by_queue_and_kept_short(autojump_clock: MockClock) -> None:
    async with LocalCluster(network="memory") as cluster:
        await cluster.create_topic("Orders", queues=64)
        for _ in range(65):
            await cluster.send(Message("Orders", b"1"))
        with pytest.raises(WaitTimeoutError) as caught:
            await cluster.wait_consumed("billing", "Orders", timeout=1)
    assert len(caught.value.missing) == 65
    assert caught.value.missing[0] == "Orders queue 0 of broker-a: 2 not consumed of 2"
    assert str(caught.value).endswith("and 45 more")


# --- sends that go wrong -------------------------------------------------------------------------------


async def test_refused_sends_are_not_stored(autojump_clock: MockClock) -> None:
    async with LocalCluster(network="memory") as cluster, rocketpy.Producer("shop", **reach(cluster)) as producer:
        cluster.refuse_sends(2)
        assert (await producer.send(Message("Orders", b"third time lucky"))).status.name == "SEND_OK"
        assert len(cluster.messages("Orders")) == 1
        cluster.refuse_sends(code=ResponseCode.MESSAGE_ILLEGAL)
        with pytest.raises(rocketpy.MessageIllegalError, match="the test asked broker-a to refuse this send"):
            await producer.send(Message("Orders", b"refused"))
        cluster.refuse_sends(10)
        cluster.heal()
        await producer.send(Message("Orders", b"healed"))
        assert [message.body for message in cluster.messages("Orders")] == [b"third time lucky", b"healed"]


async def test_delayed_sends_are_stored_later(autojump_clock: MockClock) -> None:
    async with LocalCluster(network="memory") as cluster, rocketpy.Producer("shop", **reach(cluster)) as producer:
        await producer.send(Message("Orders", b"1"))
        cluster.delay_sends(2.5)
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(producer.send, Message("Orders", b"2"))
            await trio.sleep(2)
            assert len(cluster.messages("Orders")) == 1
        assert trio.current_time() - began == pytest.approx(2.5, abs=0.1)
        assert len(cluster.messages("Orders")) == 2


async def test_lost_answers_leave_a_message_behind(autojump_clock: MockClock) -> None:
    async with LocalCluster(network="memory") as cluster:
        async with rocketpy.Producer("shop", **reach(cluster), retry_times_when_send_failed=0) as producer:
            cluster.lose_answers()
            with pytest.raises((SendError, rocketpy.RequestTimeoutError)):
                await producer.send(Message("Orders", b"who knows"), timeout=1)
            assert [message.body for message in cluster.messages("Orders")] == [b"who knows"]
        began = trio.current_time()
    assert trio.current_time() - began < 1, "the broker does not wait for what it will never answer"


async def test_faults_of_one_broker_end_with_a_count_and_outlive_its_restart(autojump_clock: MockClock) -> None:
    async with LocalCluster(brokers=2, network="memory") as cluster:
        await cluster.create_topic("Orders")
        cluster.refuse_sends(2, broker=1)
        await cluster.restart_broker(1)
        async with rocketpy.Producer("shop", **reach(cluster), retry_times_when_send_failed=0) as producer:
            outcomes = []
            for _ in range(16):
                try:
                    outcomes.append((await producer.send(Message("Orders", b"1"))).queue.broker_name)
                except rocketpy.RocketMQError as error:
                    outcomes.append("broker-b" in str(error))
        assert outcomes.count(True) == 2
        assert {"broker-a", "broker-b"} <= {*outcomes}


async def test_faults_that_cannot_be(autojump_clock: MockClock) -> None:
    async with LocalCluster(network="memory") as cluster:
        with pytest.raises(ConfigError, match="0 times"):
            cluster.refuse_sends(0)
        with pytest.raises(ConfigError, match="-1 seconds"):
            cluster.delay_sends(-1)
        with pytest.raises(ConfigError, match="no broker 1"):
            cluster.lose_answers(broker=1)


# --- brokers that die ----------------------------------------------------------------------------------


async def test_a_killed_broker_answers_nothing_more_and_keeps_what_it_had_acknowledged(
    autojump_clock: MockClock,
) -> None:
    async with LocalCluster(network="memory") as cluster:
        async with rocketpy.Producer("shop", **reach(cluster), retry_times_when_send_failed=0) as producer:
            for number in range(10):
                await producer.send(Message("Orders", b"%d" % number))
            cluster.delay_sends(1)
            async with trio.open_nursery() as nursery:

                async def unlucky() -> None:
                    with pytest.raises(rocketpy.ConnectionLostError):
                        await producer.send(Message("Orders", b"lost"))

                nursery.start_soon(unlucky)
                await trio.sleep(0.5)
                began = trio.current_time()
                await cluster.kill_broker(0)
                assert trio.current_time() - began < 0.1
            assert cluster.storages[0].exists("abort")
            assert cluster.name_servers[0].routes.brokers == {}
            with pytest.raises(ConfigError, match="does not run"):
                await cluster.kill_broker(0)
            await cluster.start_broker(0)
            await producer.send(Message("Orders", b"10"))
        assert {message.body for message in cluster.messages("Orders")} == {b"%d" % number for number in range(11)}
    assert not cluster.storages[0].exists("abort")


async def test_what_was_consumed_before_a_broker_was_killed_may_come_again(autojump_clock: MockClock) -> None:
    consumed = []

    async def listener(message: MessageExt) -> None:
        consumed.append(message.body)

    async with LocalCluster(network="memory") as cluster:
        await cluster.create_topic("Orders")
        async with consumer(cluster, listener):
            await cluster.send(Message("Orders", b"1"))
            await cluster.wait_consumed("billing", "Orders")
        await cluster.kill_broker(0)
        await cluster.start_broker(0)
        async with consumer(cluster, listener):
            await cluster.wait_consumed("billing", "Orders")
    assert consumed == [b"1", b"1"]


# --- the three clusters --------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [BlockingLocalCluster, AsyncioLocalCluster])
def test_the_clusters_have_the_same_names_and_parameters(other: type) -> None:
    shared = {name for name in vars(Contents) if not name.startswith("_")}
    shared |= {name for name in vars(LocalCluster) if name.endswith(("_broker", "_name_server")) and name[0] != "_"}
    assert len(shared) == 18, shared
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
        assert dead.body == b"2"
        assert len(cluster.dead_letters("billing")) == 1
        with pytest.raises(WaitTimeoutError, match="has 3 of 4"):
            cluster.wait_messages("Orders", 4, timeout=0.01)


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
            with pytest.raises(WaitTimeoutError, match="billing has not consumed"):
                await cluster.wait_consumed("billing", "Orders", timeout=0.01)
            with pytest.raises(WaitTimeoutError, match="DLQ"):
                await cluster.wait_dead_letters("billing", timeout=0.01)

    asyncio.run(main())


def test_who_gives_up_waiting_on_asyncio_leaves_nothing_behind() -> None:
    import asyncio

    async def main(cluster: AsyncioLocalCluster) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(cluster.wait_messages("Orders", timeout=600), 0.01)
        await cluster.send(Message("Orders", b"1"))
        assert len(await cluster.wait_messages("Orders")) == 1

    cluster = AsyncioLocalCluster()
    with cluster.blocking:
        began = time.perf_counter()
        asyncio.run(main(cluster))
        assert time.perf_counter() - began < 60, "the loop waited for what had been given up"
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
