"""Consumers that subscribe by SQL, and subscriptions that change while they run."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.instance import MQClientInstance
from rocketpy.consumer.push import PushConsumer
from rocketpy.errors import FilterRefusedError
from rocketpy.message import Message
from rocketpy.results import ConsumeFromWhere
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from tests.system.consuming import Recorder, World, wait_until, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
HELD = {"broker_suspend_max_time": 15.0}


async def send(w: World, body: str, *, tags: str | None = None, **properties: str) -> None:
    await w.producer.send(Message("Orders", body.encode(), tags=tags, properties=properties))


async def test_F5_a_push_consumer_gets_what_its_expression_wants(autojump_clock: MockClock) -> None:
    async with world() as w:
        got = Recorder()
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got, sql="amount > 3 AND (TAGS = 'paid' OR urgent IS NOT NULL)")
        async with consumer:
            for number in range(8):
                await send(w, f"paid {number}", tags="paid", amount=str(number))
                await send(w, f"new {number}", tags="new", amount=str(number))
            await send(w, "urgent", amount="9", urgent="yes")
            await got.wait_count(5)
            await trio.sleep(1)
            assert set(got.bodies) == {b"paid 4", b"paid 5", b"paid 6", b"paid 7", b"urgent"}
            # What is not wanted is passed all the same.
            await wait_until(lambda: sum(each.commit_offset for each in consumer.status().queues.values()) == 17)
            assert consumer.status().errors == {}


async def test_F5_an_unknown_property_matches_nothing(autojump_clock: MockClock) -> None:
    async with world() as w:
        got = Recorder()
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got, sql="nothing = 1")
        async with consumer:
            await send(w, "1", amount="1")
            await trio.sleep(20)
            assert not got.messages
            # It was pulled, and passed.
            assert sum(each.commit_offset for each in consumer.status().queues.values()) == 1
            assert consumer.status().errors == {}


async def test_F5_messages_that_come_again_come_whatever_the_expression_is(autojump_clock: MockClock) -> None:
    async with world() as w:
        got = Recorder(lambda message: message.reconsume_times > 0)
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got, sql="amount > 3")
        async with consumer:
            await send(w, "5", amount="5")
            await got.wait_count(2)
            assert [message.reconsume_times for message in got.messages] == [0, 1]


# --- what a broker refuses ------------------------------------------------------------------------------


async def test_a_wrong_expression_is_told_at_the_start(autojump_clock: MockClock) -> None:
    async with world(2) as w:
        consumer = w.consumer()
        consumer.subscribe("Orders", Recorder(), sql="amount > '3'")
        with pytest.raises(FilterRefusedError, match="correct the expression, or subscribe by tags") as caught:
            await consumer.__aenter__()
        assert (caught.value.topic, caught.value.expression, caught.value.position) == ("Orders", "amount > '3'", 10)
        assert caught.value.code == 23
        consumer.subscribe("Orders", Recorder(), sql="amount > 3")
        async with consumer:
            assert await consumer.wait_assigned()


async def test_a_broker_that_is_not_set_up_for_it_is_told_at_the_start(autojump_clock: MockClock) -> None:
    async with world(enable_property_filter=False) as w:
        consumer = w.consumer()
        consumer.subscribe("Orders", Recorder(), sql="amount > 3")
        with pytest.raises(FilterRefusedError, match="set enablePropertyFilter=true there") as caught:
            await consumer.__aenter__()
        assert (caught.value.code, caught.value.position) == (1, None)


async def test_a_wrong_expression_of_a_later_subscription_stands_in_the_status(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as w:
        got = Recorder()
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got)
        async with consumer:
            consumer.subscribe("Orders", got, sql="amount >")
            await wait_until(lambda: "Orders" in consumer.status().errors)
            error = consumer.status().errors["Orders"]
            assert isinstance(error, FilterRefusedError)
            assert error.position == 9
            assert "Orders is not consumed: " in caplog.text
            consumer.subscribe("Orders", got, sql="amount > 1")
            await send(w, "1", amount="1")
            await send(w, "2", amount="2")
            await got.wait_count(1)
            assert set(got.bodies) == {b"2"}
            await wait_until(lambda: consumer.status().errors == {})


# --- subscriptions that change --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tags", "sql"])
@pytest.mark.parametrize("before", [True, False])
async def test_widening_a_subscription_loses_nothing(autojump_clock: MockClock, kind: str, before: bool) -> None:
    async with world(queues=1) as w:
        got = Recorder()
        consumer = w.consumer(consume_from_where=FIRST, **HELD)
        narrow, wide = ("a", "a || b") if kind == "tags" else ("TAGS = 'a'", "TAGS IN ('a', 'b')")
        consumer.subscribe("Orders", got, **{kind: narrow})
        async with consumer:
            await send(w, "first a", tags="a")
            await got.wait_count(1)
            await trio.sleep(1)  # a pull is held now
            if before:
                await send(w, "early b", tags="b")
                await trio.sleep(1)
            consumer.subscribe("Orders", got, **{kind: wide})
            began = trio.current_time()
            await send(w, "late b", tags="b")
            await wait_until(lambda: b"late b" in got.bodies)
            assert trio.current_time() - began < 1  # the pull that was held for "a" is not waited for
            await send(w, "late a", tags="a")
            await trio.sleep(20)
            # What came before may come or not: it depends on whether a pull has passed over it.
            assert set(got.bodies) - {b"early b"} == {b"first a", b"late b", b"late a"}


async def test_widening_again_and_again_loses_nothing(autojump_clock: MockClock) -> None:
    async with world(queues=2) as w:
        got = Recorder()
        consumer = w.consumer(consume_from_where=FIRST, **HELD)
        consumer.subscribe("Orders", got, tags="t0")
        async with consumer:
            await consumer.wait_assigned()
            for number in range(1, 30):
                consumer.subscribe("Orders", got, tags=" || ".join(f"t{each}" for each in range(number + 1)))
                await send(w, f"{number}", tags=f"t{number}")
                await send(w, "0", tags="t0")  # wakes what is held for the narrower one
                await trio.sleep(number % 3 * 0.01)
            await wait_until(lambda: len(set(got.bodies)) == 30)
            assert max(count for body, count in got.bodies.items() if body != b"0") == 1


class Widens:
    """A hook that has another thread subscribe to more when the answer to a pull has come, before it is looked at."""

    def __init__(self, consumer: Callable[[], PushConsumer], got: Recorder) -> None:
        self.consumer = consumer
        self.got = got
        self.offsets: list[str] = []
        """Where pulls that found something began."""

    def before_request(self, address: str, command: RemotingCommand) -> None:
        """Nothing."""

    def after_answer(self, address: str, command: RemotingCommand, answer: RemotingCommand | None) -> None:
        if command.code != RequestCode.PULL_MESSAGE or answer is None or answer.code != ResponseCode.SUCCESS:
            return
        self.offsets.append(command.ext_fields["queueOffset"])
        if len(self.offsets) == 1:
            wider = threading.Thread(
                target=self.consumer().subscribe, args=("Orders", self.got), kwargs={"tags": "a || b"}
            )
            wider.start()
            wider.join()


async def test_an_answer_to_what_is_not_subscribed_any_more_is_not_taken(autojump_clock: MockClock) -> None:
    """Another thread subscribes, and the loop hears of it later than of the answer to what was held."""
    async with world(queues=1) as w:
        got = Recorder()
        hook = Widens(lambda: consumer, got)
        client = MQClientInstance(
            namesrv=w.cluster.name_server_addresses, network=w.cluster.network, instance_name="shared", hooks=[hook]
        )
        async with client:
            consumer = PushConsumer("billing", client=client, consume_from_where=FIRST, **HELD)
            consumer.subscribe("Orders", got, tags="a")
            async with consumer:
                await consumer.wait_assigned()
                await trio.sleep(1)  # a pull is held now
                await send(w, "b", tags="b")
                await send(w, "a", tags="a")
                await got.wait_count(2)
                assert set(got.bodies) == {b"a", b"b"}
                assert hook.offsets[:2] == ["0", "0"]
