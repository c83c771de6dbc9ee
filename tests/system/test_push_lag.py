"""How far a push consumer is behind: `lag` counts what is not consumed yet, by queue, with one deadline."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.errors import ClientClosedError, ConfigError, ConnectError, RequestTimeoutError
from rocketpy.message import MessageExt, MessageQueue
from rocketpy.results import ConsumeFromWhere, ConsumeResult
from rocketpy.wire.codes import RequestCode
from tests.consumer import brokers as scripted
from tests.system.consuming import Recorder, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


@pytest.mark.parametrize("orderly", [False, True])
async def test_lag_counts_what_is_not_consumed(autojump_clock: MockClock, orderly: bool) -> None:
    async with world(queues=2) as w:
        release = trio.Event()

        async def listener(message: MessageExt) -> None:
            if message.queue_offset >= 3:
                await release.wait()

        consumer = w.consumer(consume_from_where=FIRST, orderly=orderly)
        consumer.subscribe("Orders", listener)
        await w.send(20)
        async with consumer:
            await trio.sleep(5)
            zero, one = consumer.assignment
            retry = MessageQueue("%RETRY%billing", "broker-a", 0)
            assert await consumer.lag() == {zero: 7, one: 7, retry: 0}
            consumer.pause()
            release.set()
            await wait_all_tasks_blocked()
            assert await consumer.lag() == {zero: 0, one: 0, retry: 0}
            await w.send(4)
            assert await consumer.lag() == {zero: 2, one: 2, retry: 0}, "what was not pulled counts"
        with pytest.raises(ClientClosedError):
            await consumer.lag()


async def test_lag_counts_a_message_that_waits_in_the_retry_topic(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        got = Recorder(lambda message: ConsumeResult.RETRY if message.reconsume_times == 0 else None)
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got)
        await w.send(1)
        async with consumer:
            await got.wait_count(1)
            consumer.pause([MessageQueue("%RETRY%billing", "broker-a", 0)])
            await trio.sleep(20)
            lag = await consumer.lag()
            assert {queue.topic: count for queue, count in lag.items()} == {"Orders": 0, "%RETRY%billing": 1}


async def test_lag_has_one_deadline_for_all_brokers(autojump_clock: MockClock) -> None:
    async with scripted.world("broker-a", "broker-b", queues=3) as w:
        consumer = w.consumer()
        consumer.subscribe("Orders", Recorder())
        async with consumer:
            await trio.sleep(1)
            assert len(await consumer.lag()) == 8
            w.brokers[1].on(RequestCode.GET_MAX_OFFSET, lambda connection, request: None)
            for timeout, limit in ((2, 2), (None, consumer.config.request_timeout)):
                began = trio.current_time()
                with pytest.raises(RequestTimeoutError):
                    await consumer.lag(timeout)
                assert trio.current_time() - began == pytest.approx(limit, abs=0.01)
            with pytest.raises(ConfigError, match="timeout must be seconds"):
                await consumer.lag(-1)


async def test_lag_with_a_broker_that_is_down_is_an_error(autojump_clock: MockClock) -> None:
    async with world(2, queues=1) as w:
        consumer = w.consumer()
        consumer.subscribe("Orders", Recorder())
        async with consumer:
            await trio.sleep(1)
            await w.cluster.stop_broker(1)
            with pytest.raises(ConnectError):
                await consumer.lag()
