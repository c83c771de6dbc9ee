"""Lite pull consumers that choose messages by SQL, and what they choose by changes while they run."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer import LitePullConsumer
from rocketpy.errors import FilterRefusedError
from rocketpy.message import Message
from rocketpy.remoting.connection import Connection
from rocketpy.results import ConsumeFromWhere
from rocketpy.wire.bodies.heartbeat import CheckClientRequestBody
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from tests.consumer import brokers
from tests.system.consuming import Recorder, World, committed, drain, queues_of, wait_until, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
WAYS = pytest.mark.parametrize("way", ["subscribe", "assign"])


async def send(w: World, body: str, *, tags: str | None = None, **properties: str) -> None:
    await w.producer.send(Message("Orders", body.encode(), tags=tags, properties=properties))


def want(consumer: LitePullConsumer, way: str, *, queues: int = 4, **filters: str) -> None:
    if way == "subscribe":
        consumer.subscribe("Orders", **filters)
    else:
        consumer.assign(queues_of(queues), **filters)


@WAYS
async def test_F5_a_lite_pull_consumer_gets_what_its_expression_wants(autojump_clock: MockClock, way: str) -> None:
    async with world() as w:
        consumer = w.lite(consume_from_where=FIRST)
        want(consumer, way, sql="amount > 3 AND (TAGS = 'paid' OR urgent IS NOT NULL)")
        async with consumer:
            for number in range(8):
                await send(w, f"paid {number}", tags="paid", amount=str(number))
                await send(w, f"new {number}", tags="new", amount=str(number))
            await send(w, "urgent", amount="9", urgent="yes")
            got = await drain(consumer, 5)
            assert {message.body for message in got} == {b"paid 4", b"paid 5", b"paid 6", b"paid 7", b"urgent"}
            # What is not wanted is passed all the same, once a broker has said that it holds no more.
            assert await consumer.poll(timeout=30) == []
            await consumer.commit()
            assert sum(filter(None, await committed(consumer))) == 17
            assert consumer.status().errors == {}


@WAYS
async def test_a_wrong_expression_is_told_when_a_lite_pull_consumer_starts(autojump_clock: MockClock, way: str) -> None:
    async with world(2) as w:
        consumer = w.lite()
        want(consumer, way, sql="amount > '3'")
        with pytest.raises(FilterRefusedError, match="correct the expression, or subscribe by tags") as caught:
            await consumer.__aenter__()
        assert (caught.value.topic, caught.value.expression, caught.value.position) == ("Orders", "amount > '3'", 10)
        want(consumer, way, sql="amount > 3")
        async with consumer:
            assert await consumer.wait_assigned()


@WAYS
async def test_a_wrong_expression_of_a_running_lite_pull_consumer_stands_in_its_status(
    autojump_clock: MockClock, way: str
) -> None:
    async with world() as w:
        consumer = w.lite(consume_from_where=FIRST)
        want(consumer, way)
        async with consumer:
            want(consumer, way, sql="amount >")
            await wait_until(lambda: "Orders" in consumer.status().errors)
            error = consumer.status().errors["Orders"]
            assert isinstance(error, FilterRefusedError)
            assert error.position == 9
            want(consumer, way, sql="amount > 1")
            await send(w, "1", amount="1")
            await send(w, "2", amount="2")
            assert [message.body for message in await drain(consumer, 1)] == [b"2"]
            await wait_until(lambda: consumer.status().errors == {})


@pytest.mark.parametrize("kind", ["subscribe", "assign", "push"])
async def test_a_wrong_expression_is_not_pulled_by_as_apaches_broker_gives_everything_to_it(
    autojump_clock: MockClock, kind: str
) -> None:
    async with brokers.world() as w:
        checks: list[str | None] = []

        def check(_: Connection, request: RemotingCommand) -> RemotingCommand:
            asked = CheckClientRequestBody.decode(request.body).subscription_data
            checks.append(None if asked is None else asked.sub_string)
            return request.answer(23 if checks[-1] == "amount >" else 0, "wrong")

        w.broker.on(RequestCode.CHECK_CLIENT_CONFIG, check)
        w.broker.store(1)
        got = Recorder()
        lite, push = (
            w.lite(consume_from_where=FIRST),
            w.consumer(consume_from_where=FIRST, post_subscription_when_pull=True),
        )
        consumer = push if kind == "push" else lite

        def subscribe(sql: str) -> None:
            if kind == "push":
                push.subscribe("Orders", got, sql=sql)
            else:
                want(lite, kind, queues=1, sql=sql)

        async def take(count: int) -> None:
            await (got.wait_count(count) if kind == "push" else drain(lite, 1))

        subscribe("amount > 1")
        async with consumer:
            await take(1)
            subscribe("amount >")
            await trio.sleep(1)
            w.broker.pulls.clear()
            w.broker.store(1)
            await trio.sleep(30)
            assert w.broker.pulled() == []
            (error,) = [each.error for queue, each in consumer.status().queues.items() if queue.topic == "Orders"]
            assert isinstance(error, FilterRefusedError)
            assert checks.count("amount >") <= 30
            subscribe("amount > 2")
            await take(2)
            assert checks.count("amount > 1") == 1


@WAYS
@pytest.mark.parametrize("kind", ["tags", "sql"])
async def test_a_lite_pull_consumer_that_wants_more_gets_it_at_once(
    autojump_clock: MockClock, way: str, kind: str
) -> None:
    async with world(queues=1) as w:
        consumer = w.lite(consume_from_where=FIRST, broker_suspend_max_time=15.0)
        narrow, wide = ("a", "a || b") if kind == "tags" else ("TAGS = 'a'", "TAGS IN ('a', 'b')")
        want(consumer, way, queues=1, **{kind: narrow})
        async with consumer:
            await send(w, "first a", tags="a")
            await drain(consumer, 1)
            await trio.sleep(1)  # a pull is held now, which asks for what was wanted before
            want(consumer, way, queues=1, **{kind: wide})
            began = trio.current_time()
            await send(w, "late b", tags="b")
            assert [message.body for message in await drain(consumer, 1)] == [b"late b"]
            assert trio.current_time() - began < 3
