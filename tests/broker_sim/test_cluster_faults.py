"""What a test lets go wrong in a cluster: sends, brokers, connections."""

from __future__ import annotations

from datetime import timedelta

import pytest
import trio
from trio.testing import MockClock

import rocketpy
import rocketpy.sync
from rocketpy import ConfigError, Message, MessageExt, SendError
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim import LocalCluster
from rocketpy_broker_sim.broker.name_servers import registration
from tests.broker_sim.embedded import consumer, reach

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
        cluster.delay_sends(timedelta(seconds=2.5))
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
        with pytest.raises(ConfigError, match="times must be at least 1, not 0"):
            cluster.refuse_sends(0)
        with pytest.raises(ConfigError, match="must be 0 or more seconds, not -1"):
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
            with pytest.raises(ConfigError, match="is not running"):
                await cluster.kill_broker(0)
            await cluster.start_broker(0)
            await producer.send(Message("Orders", b"10"))
        assert {message.body for message in cluster.messages("Orders")} == {b"%d" % number for number in range(11)}
    assert not cluster.storages[0].exists("abort")


@pytest.mark.parametrize("network", ["memory", "tcp"])
async def test_a_killed_broker_does_not_look_for_its_name_server(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "GATHER", 0)  # at once, while its connections are still being closed
    async with LocalCluster(network=network) as cluster:
        for _ in range(5):
            await cluster.kill_broker(0)
            await cluster.start_broker(0)


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


# --- connections that are cut ----------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["memory", "tcp"])
async def test_cut_connections_break_and_the_broker_runs_on(network: str) -> None:
    async with LocalCluster(brokers=2, network=network) as cluster:
        await cluster.create_topic("Orders")
        async with rocketpy.Producer("shop", **reach(cluster)) as producer:
            for _ in range(16):
                await producer.send(Message("Orders", b"before"))
            first, second = ({*broker.server.connections} for broker in cluster.brokers)
            assert (len(first), len(second)) == (1, 1)
            assert await cluster.cut_connections(1) == 1
            assert not any(connection.is_open for connection in second)
            assert all(connection.is_open for connection in first)
            assert cluster.name_servers[0].routes.brokers.keys() == {"broker-a", "broker-b"}
            for _ in range(16):
                assert (await producer.send(Message("Orders", b"after"))).status is rocketpy.SendStatus.SEND_OK
            assert await cluster.cut_connections() == 2
            assert await cluster.cut_connections() == 0
        assert len(cluster.messages("Orders")) == 32


async def test_a_send_whose_connection_is_cut_has_no_answer(autojump_clock: MockClock) -> None:
    async with LocalCluster(network="memory") as cluster:
        async with rocketpy.Producer("shop", **reach(cluster), retry_times_when_send_failed=0) as producer:
            await producer.send(Message("Orders", b"1"))
            cluster.delay_sends(5)
            async with trio.open_nursery() as nursery:

                async def unlucky() -> None:
                    with pytest.raises(rocketpy.ConnectionLostError):
                        await producer.send(Message("Orders", b"2"))

                nursery.start_soon(unlucky)
                await trio.sleep(1)
                assert await cluster.cut_connections(broker=0) == 1
            await producer.send(Message("Orders", b"3"))


async def test_a_consumer_comes_back_after_a_cut(autojump_clock: MockClock) -> None:
    consumed = []

    async def listener(message: MessageExt) -> None:
        consumed.append(message.body)

    async with LocalCluster(network="memory") as cluster:
        await cluster.create_topic("Orders")
        async with consumer(cluster, listener):
            await cluster.wait_consumed("billing", "Orders")
            assert await cluster.cut_connections(0) >= 1
            await cluster.send(Message("Orders", b"1"))
            await cluster.wait_consumed("billing", "Orders", timeout=60)
    assert consumed == [b"1"]
