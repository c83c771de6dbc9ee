"""Waiting in a cluster: for messages, for consumers, and for what is not there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy import ConfigError, Message, MessageExt, RetryLater
from rocketpy.wire.enums import MessageModel
from rocketpy_broker_sim import LocalCluster, WaitTimeoutError
from tests.broker_sim.embedded import consumer, nothing

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
        await cluster.send(Message("Orders", "2"))
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
        with pytest.raises(WaitTimeoutError, match=r"messages after 90 s"):
            await cluster.wait_messages("Orders", 2, timeout=timedelta(minutes=1.5))
        assert trio.current_time() - began == pytest.approx(93)
        with pytest.raises(WaitTimeoutError, match=r"within 0.001 s"):
            await cluster.wait_consumed("billing", "Orders", timeout=timedelta(milliseconds=1))
        with pytest.raises(
            WaitTimeoutError, match=r"has 0 of 1 messages after 0 s:\n  no group billing has ever consumed here$"
        ):
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


async def test_what_is_delivered_later_is_waited_for(autojump_clock: MockClock) -> None:
    consumed: list[bytes] = []
    async with LocalCluster(network="memory") as cluster:
        await cluster.create_topic("Orders")
        async with consumer(cluster, lambda message: consumed.append(message.body)):
            await cluster.send(Message("Orders", b"1", delay=30))
            await cluster.send(Message("Orders", b"2", delay=30))
            for seconds in (0, 5):
                with pytest.raises(WaitTimeoutError, match="2 messages of broker-a to Orders still to be delivered at"):
                    await cluster.wait_consumed("billing", "Orders", timeout=seconds)
            await cluster.wait_consumed("billing", "Orders", timeout=60)
            assert sorted(consumed) == [b"1", b"2"]


async def test_what_is_tried_again_is_waited_for(autojump_clock: MockClock) -> None:
    tries = []

    async def listener(message: MessageExt) -> RetryLater | None:
        tries.append(message.reconsume_times)
        return RetryLater() if len(tries) < 3 else None

    async with LocalCluster(network="memory") as cluster:
        await cluster.create_topic("Orders")
        async with consumer(cluster, listener):
            await cluster.send(Message("Orders", b"1"))
            with pytest.raises(WaitTimeoutError, match="waits for its delay") as caught:
                await cluster.wait_consumed("billing", "Orders", timeout=5)
            assert "(level 3)" in str(caught.value)
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
    assert len(caught.value.missing) == 66
    assert caught.value.missing[1] == "Orders queue 0 of broker-a: 2 not consumed of 2"
    assert str(caught.value).endswith("and 46 more")


# --- waiting for what is not there -----------------------------------------------------------------------


async def test_a_group_that_nobody_has_seen_is_waited_for_and_named(autojump_clock: MockClock) -> None:
    async with LocalCluster(network="memory") as cluster:
        began = trio.current_time()
        with pytest.raises(WaitTimeoutError) as caught:
            await cluster.wait_consumed("nogroup", "NoTopic", timeout=7)
        assert trio.current_time() - began == pytest.approx(7)
        assert caught.value.missing == (
            "there is no topic NoTopic",
            "no group nogroup has ever consumed here",
            "members of the group now: none",
        )


async def test_names_that_were_mistyped_are_told_with_those_that_may_be_meant(autojump_clock: MockClock) -> None:
    async with LocalCluster(network="memory") as cluster:
        for topic in ("Orders", "Payments"):
            await cluster.create_topic(topic)
        async with consumer(cluster, nothing):
            await cluster.wait_consumed("billing", "Orders")
            for group, topic, said in (
                ("billing", "orders", "there is no topic orders: did you mean Orders?"),
                ("billing", "Paymnts", "there is no topic Paymnts: did you mean Payments?"),
                ("billing", "X", "there is no topic X; known: Orders, Payments"),
                ("biling", "Orders", "no group biling has ever consumed here: did you mean billing?"),
                ("Q", "Orders", "no group Q has ever consumed here; known: billing"),
                ("billing", "Payments", "the group billing does not consume Payments; it consumes Orders"),
            ):
                with pytest.raises(WaitTimeoutError) as caught:
                    await cluster.wait_consumed(group, topic, timeout=0.5)
                assert caught.value.missing[0] == said
        mistyped = r"Order has 0 of 1 .*:\n  there is no topic Order: did you mean Orders"
        with pytest.raises(WaitTimeoutError, match=mistyped):
            await cluster.wait_messages("Order", timeout=0.5)
        with pytest.raises(WaitTimeoutError, match=r"has 0 of 1 .*:\n  no group bill has ever .* did you mean billing"):
            await cluster.wait_dead_letters("bill", timeout=0.5)
        with pytest.raises(WaitTimeoutError) as caught:  # where both are there, they only hold too little
            await cluster.wait_messages("Orders", timeout=0.5)
        assert caught.value.missing == ()


async def test_a_group_and_a_topic_that_come_later_are_in_time(autojump_clock: MockClock) -> None:
    consumed = []

    async def listener(message: MessageExt) -> None:
        consumed.append(message.body)

    async with LocalCluster(network="memory") as cluster, trio.open_nursery() as nursery:

        async def service() -> None:
            await trio.sleep(3)
            await cluster.send(Message("Orders", b"1"))
            await trio.sleep(3)
            async with consumer(cluster, listener):
                await trio.sleep_forever()

        nursery.start_soon(service)
        await cluster.wait_consumed("billing", "Orders")
        assert consumed == [b"1"]
        nursery.cancel_scope.cancel()


async def test_a_group_that_has_gone_is_known_by_what_it_consumed(autojump_clock: MockClock) -> None:
    async with LocalCluster(network="memory") as cluster:
        await cluster.create_topic("Orders")
        async with consumer(cluster, nothing):
            await cluster.wait_consumed("billing", "Orders")
        await cluster.restart_broker(0)
        await cluster.wait_consumed("billing", "Orders", timeout=0)
        await cluster.send(Message("Orders", b"1"))
        with pytest.raises(WaitTimeoutError, match="1 not consumed of 1"):
            await cluster.wait_consumed("billing", "Orders", timeout=1)


async def test_without_a_broker_nothing_counts_as_consumed(autojump_clock: MockClock) -> None:
    async with LocalCluster(network="memory") as cluster:
        await cluster.create_topic("Orders")
        async with consumer(cluster, nothing):
            await cluster.wait_consumed("billing", "Orders")
            await cluster.stop_broker(0)
            with pytest.raises(WaitTimeoutError, match="no broker is running: start one"):
                await cluster.wait_consumed("billing", "Orders", timeout=1)
            with pytest.raises(WaitTimeoutError, match="no broker is running: start one"):
                await cluster.wait_messages("Orders", timeout=1)
            await cluster.start_broker(0)
            await cluster.wait_consumed("billing", "Orders", timeout=60)


async def test_a_group_that_broadcasts_is_not_waited_for(autojump_clock: MockClock) -> None:
    async with LocalCluster(network="memory") as cluster:
        await cluster.create_topic("Orders")
        async with consumer(cluster, nothing):
            await cluster.wait_consumed("billing", "Orders")
            group = cluster.brokers[0].clients.consumers.group("billing")
            assert group is not None
            group.message_model = MessageModel.BROADCASTING  # as clients in other languages say
            with pytest.raises(ConfigError, match="billing broadcasts"):
                await cluster.wait_consumed("billing", "Orders")


async def test_who_waits_hears_that_the_cluster_has_closed(autojump_clock: MockClock) -> None:
    cluster = LocalCluster(network="memory")
    async with trio.open_nursery() as nursery:
        ended = []

        async def wait(method: Any, *names: str) -> None:
            with pytest.raises(ConfigError, match="the cluster is not running"):
                await method(*names, timeout=600)
            ended.append(trio.current_time())

        async with cluster:
            nursery.start_soon(wait, cluster.wait_messages, "Orders")
            nursery.start_soon(wait, cluster.wait_dead_letters, "billing")
            nursery.start_soon(wait, cluster.wait_consumed, "billing", "Orders")
            await trio.sleep(1)
        closed = trio.current_time()
    assert len(ended) == 3
    assert max(ended) - closed < 1
