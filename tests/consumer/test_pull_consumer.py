"""A pull consumer pulls from the master, or from the replica that the last answer has suggested."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer import PullConsumer
from rocketpy.errors import BrokerError, ClientClosedError, ConfigError, MessageDecodeError, RequestTimeoutError
from rocketpy.message import MessageQueue
from rocketpy.wire.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.sysflag import INNER_BATCH, NEED_UNWRAP
from tests.consumer.brokers import PullBroker, Step, world
from tests.consumer.helpers import record

ONE, TWO = MessageQueue("Orders", "broker-a", 0), MessageQueue("Orders", "broker-a", 1)


def suggests(broker: PullBroker, broker_id: int) -> Step:
    """A step that answers with one message, and suggests a broker."""
    return lambda request, header: broker.answer_pull(
        request, 0, header.queue_offset + 1, record(header.queue_offset), broker_id
    )


@asynccontextmanager
async def two_brokers() -> AsyncIterator[tuple[PullConsumer, PullBroker, PullBroker]]:
    """A pull consumer, and a master and its replica, which suggest themselves."""
    async with world("broker-a", "broker-b") as w:
        master, replica = w.brokers
        addresses = BrokerData(broker_name="broker-a", broker_addrs={0: master.address, 1: replica.address})
        queues = QueueData(broker_name="broker-a", read_queue_nums=2, write_queue_nums=2, perm=6)
        w.set_route("Orders", TopicRouteData(broker_datas=[addresses], queue_datas=[queues]))
        master.script = [suggests(master, 0) for _ in range(20)]
        replica.script = [suggests(replica, 1) for _ in range(20)]
        async with PullConsumer("audit", namesrv=w.name_server.address, network=w.network) as consumer:
            yield consumer, master, replica


async def test_a_pull_goes_to_the_broker_that_the_last_answer_for_this_queue_suggested(
    autojump_clock: MockClock,
) -> None:
    async with two_brokers() as (consumer, master, replica):
        await consumer.pull(ONE, 0)
        master.script[0] = suggests(master, 1)
        result = await consumer.pull(ONE, 1)
        assert result.suggested_broker_id == 1
        await consumer.pull(ONE, 2)
        await consumer.pull_block_if_not_found(ONE, 3)
        await consumer.pull(TWO, 0)
        assert [(pull.queue_id, pull.queue_offset) for pull in master.pulls] == [(0, 0), (0, 1), (1, 0)]
        assert [pull.queue_offset for pull in replica.pulls] == [2, 3]
        replica.script[0] = suggests(replica, 0)
        for offset in (4, 5):
            await consumer.pull(ONE, offset)
        assert [pull.queue_offset for pull in replica.pulls] == [2, 3, 4]
        assert master.pulls[-1].queue_offset == 5


async def test_after_a_failed_pull_from_a_replica_the_master_is_asked(autojump_clock: MockClock) -> None:
    async with two_brokers() as (consumer, master, replica):
        master.script[0] = suggests(master, 1)
        replica.script[0] = ResponseCode.SYSTEM_ERROR
        await consumer.pull(ONE, 0)
        with pytest.raises(BrokerError):
            await consumer.pull(ONE, 1)
        await consumer.pull(ONE, 1)
        assert [pull.queue_offset for pull in master.pulls] == [0, 1]
        assert [pull.queue_offset for pull in replica.pulls] == [1]


async def test_after_a_replica_has_not_checked_an_expression_the_master_is_asked(autojump_clock: MockClock) -> None:
    async with two_brokers() as (consumer, master, replica):
        master.on(RequestCode.CHECK_CLIENT_CONFIG, lambda _, request: request.answer())
        replica.on(RequestCode.CHECK_CLIENT_CONFIG, lambda *_: None)
        master.script[0] = suggests(master, 1)
        await consumer.pull(ONE, 0, sql="a > 1")
        with pytest.raises(RequestTimeoutError):
            await consumer.pull(ONE, 1, sql="a > 1")
        await consumer.pull(ONE, 1, sql="a > 1")
        assert [pull.queue_offset for pull in master.pulls] == [0, 1]
        assert not replica.pulls


async def test_statistics_count_pulls_by_topic_and_broker(autojump_clock: MockClock) -> None:
    before = PullConsumer("audit", namesrv="127.0.0.1:9876")
    with pytest.raises(ClientClosedError, match="not started"):
        before.statistics()
    async with two_brokers() as (consumer, master, _):
        assert (consumer.statistics().pulls, consumer.statistics().brokers) == (0, {})
        for offset in range(3):
            await consumer.pull(ONE, offset)
        master.script[0] = lambda request, header: master.answer_pull(request, 19, header.queue_offset)
        await consumer.pull(ONE, 3)
        master.script[0] = ResponseCode.SYSTEM_ERROR
        with pytest.raises(BrokerError):
            await consumer.pull(TWO, 0)
        with pytest.raises(ConfigError):
            await consumer.pull(ONE, -1)
        master.script[0] = lambda request, header: None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consumer.pull_block_if_not_found, ONE, 4)
            await trio.sleep(1)
            found = consumer.statistics()
            nursery.cancel_scope.cancel()
    assert (found.pulls, found.failed, found.pulled, found.in_flight) == (4, 1, 3, 1)
    assert found.pulled_per_second == found.topics["Orders"].pulled_per_second > 0
    broker = found.brokers["broker-a"]
    assert (broker.pulled, broker.latency.count, broker.queues) == (3, 3, 0)
    after = consumer.statistics()
    assert (after.pulls, after.failed, after.in_flight) == (4, 1, 0)


async def test_a_batch_that_is_damaged_on_a_replica_is_asked_of_the_master_next(autojump_clock: MockClock) -> None:
    async with two_brokers() as (consumer, master, replica):
        master.script[0] = suggests(master, 1)
        await consumer.pull(ONE, 0)
        damaged = record(1) + record(2, body=b"no batch", sys_flag=INNER_BATCH | NEED_UNWRAP)
        replica.script[0] = lambda request, _: replica.answer_pull(request, 0, 3, damaged)
        with pytest.raises(MessageDecodeError) as caught:
            await consumer.pull(ONE, 1)
        assert [message.queue_offset for message in caught.value.decoded] == [1]
        await consumer.pull(ONE, 2)
        assert [pull.queue_offset for pull in master.pulls] == [0, 2]
