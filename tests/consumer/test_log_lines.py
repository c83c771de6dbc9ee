"""One line for a change of state, and no more than one a second and cause; in virtual time."""

from __future__ import annotations

import logging

import pytest
import trio
from trio.testing import MockClock

from rocketpy.message import MessageExt
from rocketpy.results import ConsumeFromWhere, ConsumeResult
from rocketpy.wire.codes import RequestCode, ResponseCode
from tests.consumer.brokers import world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def said(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    lines = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    return [line for line in lines if text in line]


async def test_failures_of_listeners(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    async with world(topics=("Orders", "Bills")) as w:
        w.broker.store(300)
        w.broker.store(1, topic="Bills")

        async def listener(message: MessageExt) -> None:
            await trio.sleep(0.1)
            raise ValueError("no") if message.queue_offset % 2 else KeyError("no")

        consumer = w.consumer(consume_from_where=FIRST, consume_thread_max=10)
        consumer.subscribe("Orders", listener)
        consumer.subscribe("Bills", listener)
        async with consumer:
            await trio.sleep(5)
            assert consumer.statistics().failed == 301
        lines = said(caplog, "the listener raised an exception")
        # Two kinds of error in one topic for three seconds, and one in another topic.
        assert 5 <= len(lines) <= 10
        assert len([line for line in lines if "of Bills" in line]) == 1
        assert sum(int(line.split("(and ")[1].split()[0]) for line in lines if "(and " in line) > 200


async def test_pulls_of_all_queues_of_a_broker_that_fails(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(queues=20) as w:
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", lambda message: None)
        async with consumer:
            await trio.sleep(1)
            pull = w.broker.dispatcher.processors[RequestCode.PULL_MESSAGE]
            w.broker.on(
                RequestCode.PULL_MESSAGE, lambda connection, request: request.answer(ResponseCode.SYSTEM_ERROR, "no")
            )
            await trio.sleep(100)
            assert len(said(caplog, "failed and is retried")) == 1
            w.broker.on(RequestCode.PULL_MESSAGE, pull)
            for number in range(20):
                w.broker.store(1, queue_id=number)
            await trio.sleep(10)
            assert 1 <= len(said(caplog, "is pulled again")) <= 2
            assert not [each for each in consumer.assignment if consumer.status().queues[each].error is not None]


async def test_messages_that_no_broker_takes_back(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    async with world() as w:
        w.broker.store(200)
        w.broker.send_back_code = ResponseCode.SYSTEM_ERROR
        w.broker.send_code = ResponseCode.MESSAGE_ILLEGAL
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", lambda message: ConsumeResult.RETRY)
        async with consumer:
            await trio.sleep(4)
            assert consumer.statistics().retried_here == 200
        assert len(said(caplog, "so this consumer retries it")) <= 4


async def test_a_broker_that_moves_a_queue_again_and_again(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as w:
        consumer = w.consumer(consume_from_where=FIRST)
        w.broker.on(
            RequestCode.PULL_MESSAGE,
            lambda connection, request: w.broker.answer_pull(request, ResponseCode.PULL_OFFSET_MOVED, 7),
        )
        consumer.subscribe("Orders", lambda message: None)
        async with consumer:
            await trio.sleep(3)
            assert consumer.statistics().offset_resets > 50
        assert len(said(caplog, "moves Orders@broker-a:0 from offset")) <= 4


async def test_a_queue_that_somebody_has_set_back_is_told_from_one_without_the_offset(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(queues=2) as w:
        w.broker.store(10, queue_id=0)
        w.broker.offsets = {("Orders", 0): 10, ("Orders", 1): 10}
        w.broker.script = [
            lambda request, header: w.broker.answer_pull(
                request, ResponseCode.PULL_OFFSET_MOVED, 4 - 4 * header.queue_id
            )
        ] * 2
        got: list[MessageExt] = []
        consumer = w.consumer()
        consumer.subscribe("Orders", got.append)
        async with consumer:
            await trio.sleep(2)
        assert sorted(message.queue_offset for message in got) == [4, 5, 6, 7, 8, 9]
    (back,) = said(caplog, "moves Orders@broker-a:0 from offset 10 to 4")
    (gone,) = said(caplog, "moves Orders@broker-a:1 from offset 10 to 0")
    assert "was given another one for this group (it has 0 to 10)" in back
    assert "has no such offset (it has 0 to 0)" in gone


@pytest.mark.slow
async def test_name_servers_that_are_away_for_long(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    async with world() as w:
        consumer = w.consumer()
        consumer.subscribe("Orders", lambda message: None)
        async with consumer:
            route = w.name_server.dispatcher.processors[RequestCode.GET_ROUTEINFO_BY_TOPIC]
            w.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda connection, request: None)
            await trio.sleep(900)
            assert len(said(caplog, "routes are not refreshed")) == 1
            w.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, route)
            await trio.sleep(120)
            assert len(said(caplog, "routes are refreshed again")) == 1
