"""One deadline for a start and for closing, whatever hangs; in virtual time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.errors import NameServerUnreachableError, RequestTimeoutError
from rocketpy.message import MessageExt
from rocketpy.results import ConsumeFromWhere
from rocketpy.wire.codes import RequestCode
from tests.consumer.brokers import queue, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
TOPICS = tuple(f"T{number:02}" for number in range(20))


def nothing(message: MessageExt) -> None:
    pass


async def test_a_hung_broker_costs_a_start_with_many_topics_no_more_than_with_one(autojump_clock: MockClock) -> None:
    async with world("broker-a", "broker-b", topics=TOPICS) as w:
        a, b = w.brokers
        for topic in TOPICS:
            a.store(1, topic=topic)
        b.hangs = True
        got: list[tuple[str, float]] = []
        consumer = w.consumer(consume_from_where=FIRST)
        for topic in TOPICS:
            consumer.subscribe(topic, lambda message: got.append((message.topic, trio.current_time())))
        began = trio.current_time()
        async with consumer:
            assert trio.current_time() - began <= 5
            assert {each.topic for each in consumer.assignment} == set(TOPICS)
            assert {each.broker_name for each in consumer.assignment} == {"broker-a"}
            # The messages of the other broker did not wait for the hung one.
            assert sorted(topic for topic, _ in got) == list(TOPICS)
            assert max(at for _, at in got) - began < 2
            b.hangs = False
            await trio.sleep(20)
            assert len(consumer.assignment) == 40


@pytest.mark.parametrize("hung", [RequestCode.GET_CONSUMER_LIST_BY_GROUP, RequestCode.QUERY_CONSUMER_OFFSET])
async def test_a_start_ends_in_time_and_says_what_it_waits_for(
    autojump_clock: MockClock, hung: RequestCode, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as w:
        answers = w.broker.dispatcher.processors[hung]
        w.broker.on(hung, lambda connection, request: None)
        consumer = w.consumer(start_timeout=0.5)
        consumer.subscribe("Orders", nothing)
        began = trio.current_time()
        async with consumer:
            assert trio.current_time() - began == pytest.approx(0.5)
            assert consumer.assignment == ()
            assert "without all of its topics" in caplog.text
            assert "Orders waits for" in caplog.text
            with pytest.raises(RequestTimeoutError, match=r"Orders waits for .*(broker-a|127\.0\.0\.1)"):
                await consumer.wait_assigned(0.5)
            w.broker.on(hung, answers)
            assert await consumer.wait_assigned(60) == (queue(0),)


async def test_a_name_server_that_hangs_ends_a_start_once_for_all_topics(autojump_clock: MockClock) -> None:
    async with world(topics=TOPICS) as w:
        w.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda connection, request: None)
        consumer = w.consumer()
        for topic in TOPICS:
            consumer.subscribe(topic, nothing)
        began = trio.current_time()
        with pytest.raises(NameServerUnreachableError, match=r"no route to the topic T\d\d: no name server answered"):
            async with consumer:
                raise AssertionError("nobody gets here")
        assert trio.current_time() - began <= 5


async def test_a_topic_that_is_subscribed_later_does_not_wait_for_a_hung_broker_of_another(
    autojump_clock: MockClock,
) -> None:
    async with world("broker-a", "broker-b", topics=TOPICS) as w:
        a, b = w.brokers
        b.hangs = True
        consumer = w.consumer(consume_from_where=FIRST)
        got: list[float] = []
        for topic in TOPICS[1:]:
            consumer.subscribe(topic, nothing)
        async with consumer:
            await trio.sleep(30)
            a.store(1, topic="T00")
            began = trio.current_time()
            consumer.subscribe("T00", lambda message: got.append(trio.current_time()))
            await trio.sleep(15)
            assert len(got) == 1
            assert got[0] - began < 5


async def test_closing_has_one_deadline_and_says_what_is_left(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world("broker-a", "broker-b", topics=TOPICS) as w:
        a, b = w.brokers
        consumer = w.consumer(consume_from_where=FIRST, await_termination=2)

        async def hang(message: MessageExt) -> None:
            await trio.sleep_forever()

        consumer.subscribe("T00", hang)
        for topic in TOPICS[1:]:
            consumer.subscribe(topic, nothing)
        async with consumer:
            for topic in TOPICS:
                a.store(1, topic=topic)
                b.store(1, topic=topic)
            await trio.sleep(1)
            b.hangs = True
            began = trio.current_time()
        assert trio.current_time() - began <= 2 + 3 + 1
        assert a.offsets["T01", 0] == 1
        assert [each.consumer_group for each in a.left] == ["billing"]
        assert "listeners of billing are still running after 2 s" in caplog.text
        # Of both retry topics, which have a queue on each broker, that of the hung one is among them.
        assert "the offsets of 21 queues are not committed" in caplog.text
        assert f"these brokers did not confirm the unregistration in time: {b.address}" in caplog.text


async def test_a_retry_topic_that_is_missing_alone_is_told_of(autojump_clock: MockClock) -> None:
    async with world() as w:
        del w.name_server.routes["%RETRY%billing"]
        consumer = w.consumer()
        consumer.subscribe("Orders", nothing)
        async with consumer:
            await trio.sleep(5)
            [(topic, error)] = consumer.status().errors.items()
            assert topic == "%RETRY%billing"
            assert "a broker creates it when it first hears of the group" in str(error)
            assert "create it, or" not in str(error)
