"""What `rocketpy tail` follows: queues that are there, queues that are added, and brokers that fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from rocketpy import (
    BrokersFailedError,
    ConfigError,
    FilterRefusedError,
    Message,
    MessageDecodeError,
    MessageExt,
    TopicNotFoundError,
)
from rocketpy.cli.traffic.reading import QueueReader
from rocketpy.cli.traffic.starts import Start
from rocketpy.cli.traffic.tailing import Request, Tail
from rocketpy.client.api.pull import PullForm
from rocketpy.message import MessageQueue
from rocketpy.seams import wall_ms
from rocketpy.wire.sysflag import INNER_BATCH, NEED_UNWRAP, PullSysFlag
from tests.admin.scene import Scene, scene
from tests.consumer.helpers import stored
from tests.system.consuming import wait_until


class Shown:
    """What was printed, and what was said."""

    def __init__(self) -> None:
        self.messages: list[MessageExt] = []
        self.notes: list[str] = []

    @property
    def bodies(self) -> list[bytes]:
        return [each.body for each in self.messages]

    def emit(self, messages: Sequence[MessageExt]) -> None:
        self.messages.extend(messages)


async def look(s: Scene, **request: Any) -> list[bytes]:
    """What is shown of the topic Orders without following it."""
    shown = Shown()
    await Tail(s.admin, Request(**{"topic": "Orders", **request}), shown.emit, shown.notes.append).run()
    assert shown.notes == []
    return shown.bodies


@asynccontextmanager
async def following(s: Scene, **request: Any) -> AsyncIterator[Shown]:
    """What is shown while the topic Orders is followed."""
    shown = Shown()
    tail = Tail(s.admin, Request(**{"topic": "Orders", "follow": True, **request}), shown.emit, shown.notes.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tail.run)
        await tail.ready.wait()
        yield shown
        nursery.cancel_scope.cancel()


async def test_the_last_messages_of_all_queues_in_the_order_of_time(autojump_clock: MockClock) -> None:
    async with scene(2, queues=2) as s:
        for number in range(30):
            await s.world.send(1, start=number, tags="odd" if number % 2 else "even")
            await trio.sleep(0.01)
        assert await look(s) == [b"%d" % number for number in range(20, 30)]
        assert await look(s, count=3) == [b"27", b"28", b"29"]
        assert await look(s, count=1000) == [b"%d" % number for number in range(30)]
        assert await look(s, count=3, tags="odd") == [b"25", b"27", b"29"]
        assert await look(s, count=3, tags="none || other") == []
        assert await look(s, count=2, sql="TAGS = 'even'") == [b"26", b"28"]
        first = await look(s, count=2, brokers=("broker-b",), queues=(1,))
        assert len(first) == 2
        assert await look(s, topic="Orders", count=5, queues=(0, 1)) == await look(s, count=5)
        assert await s.admin.offsets.lags() == ()  # no group, and nothing committed


async def test_messages_that_match_far_back_in_a_queue(autojump_clock: MockClock) -> None:
    async with scene(queues=1) as s:
        await s.world.send(3, tags="rare")
        await s.world.send(400, start=3, tags="often")
        assert await look(s, count=2, tags="rare") == [b"1", b"2"]


async def test_from_the_begin_an_offset_or_a_time(autojump_clock: MockClock) -> None:
    async with scene(queues=1) as s:
        await s.world.send(40)
        await trio.sleep(5)
        moment = wall_ms()
        await s.world.send(5, start=40)
        everything = [b"%d" % number for number in range(45)]
        assert await look(s, start=Start("begin")) == everything
        assert await look(s, start=Start("begin"), count=2) == everything[:2]
        assert await look(s, start=Start("end")) == []
        assert await look(s, start=Start("offset", 43)) == everything[43:]
        assert await look(s, start=Start("time", moment)) == everything[40:]
        assert await look(s, start=Start("time", moment + 60_000)) == []
        shown = Shown()
        await Tail(s.admin, Request(topic="Orders", start=Start("offset", 50)), shown.emit, shown.notes.append).run()
        assert (shown.bodies, shown.notes) == ([], ["Orders@broker-a:0 ends at offset 45, before 50"])


async def test_messages_with_a_key(autojump_clock: MockClock) -> None:
    async with scene(2, queues=1) as s:
        for number in range(9):
            key = "Aa" if number % 3 else "BB"  # their hashes are equal
            await s.world.producer.send(Message("Orders", b"%d" % number, keys=[key], tags="t"))
            await trio.sleep(0.01)
        assert await look(s, key="BB") == [b"0", b"3", b"6"]
        assert await look(s, key="Aa", count=2) == [b"7", b"8"]
        assert await look(s, key="BB", count=100) == [b"0", b"3", b"6"]  # more than the index returns: it is not used
        assert await look(s, key="BB", tags="other") == []
        assert sorted(await look(s, key="BB", start=Start("begin"))) == [b"0", b"3", b"6"]
        with pytest.raises(ConfigError, match="a key must be non-empty text without spaces, not 'A a'"):
            await look(s, key="A a")


async def test_more_messages_with_a_key_than_brokers_return(autojump_clock: MockClock) -> None:
    """Each returns its newest 64: the last of all are among them, unless something else is wanted too."""
    async with scene(2, queues=2) as s:

        async def send(number: int, broker: str, queue_id: int, tags: str) -> None:
            message = Message("Orders", b"%d" % number, keys=["k"], tags=tags)
            await s.world.producer.send(message, queue=MessageQueue("Orders", broker, queue_id))
            await trio.sleep(0.001)

        await send(0, "broker-b", 1, "rare")
        for number in range(1, 4):
            await send(number, "broker-a", 1, "rare")
        for number in range(4, 144):
            await send(number, "broker-b" if number % 2 else "broker-a", 0, "often")
        assert await look(s, key="k", count=3) == [b"141", b"142", b"143"]
        assert await look(s, key="k", count=64) == [b"%d" % number for number in range(80, 144)]
        assert await look(s, key="k", count=3, tags="rare") == [b"1", b"2", b"3"]
        assert await look(s, key="k", tags="rare") == [b"0", b"1", b"2", b"3"]
        assert await look(s, key="k", count=2, queues=(1,)) == [b"2", b"3"]
        assert await look(s, key="k", count=2, brokers=("broker-b",)) == [b"141", b"143"]
        assert await look(s, key="k", count=2, brokers=("broker-b",), queues=(1,)) == [b"0"]


async def test_the_index_spares_reading_the_queues(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(2, queues=1) as s:
        for number in range(70):
            await s.world.producer.send(Message("Orders", b"%d" % number, keys=["k"]))
            await trio.sleep(0.001)
        monkeypatch.setattr(QueueReader, "last", None)
        assert await look(s, key="k", count=2) == [b"68", b"69"]
        assert len(await look(s, key="k", count=64, brokers=("broker-b",))) == 35


async def test_requests_that_cannot_be_carried_out(autojump_clock: MockClock) -> None:
    async with scene() as s:
        for wrong, error, said in (
            ({"topic": "Nowhere"}, TopicNotFoundError, "Nowhere does not exist"),
            ({"topic": "no topic"}, ConfigError, "no topic"),
            ({"count": 0}, ConfigError, "between 1 and 100000"),
            ({"tags": "a", "sql": "a = 1"}, ConfigError, "not both"),
            ({"queues": (0, 4)}, ConfigError, "has no queue 4; its queues are 0 to 3"),
            ({"sql": "a ="}, FilterRefusedError, "cannot be read"),
        ):
            with pytest.raises(error, match=said):
                await unwrapped(look(s, **wrong))


async def unwrapped(awaitable: Any) -> Any:
    """One error instead of a group of it, as the command raises it."""
    try:
        return await awaitable
    except ExceptionGroup as group:
        raise group.exceptions[0] from None


async def test_what_arrives_is_shown_at_once(autojump_clock: MockClock) -> None:
    async with scene(2, queues=2) as s:
        for number in range(3):
            await s.world.send(1, start=number)
            await trio.sleep(0.01)
        async with following(s, count=2) as shown:
            await wait_until(lambda: len(shown.messages) == 2)
            for number in range(3, 9):
                await s.world.send(1, start=number)
                await wait_until(lambda: shown.bodies[-1] == b"%d" % number)  # noqa: B023
        assert shown.bodies == [b"%d" % number for number in range(1, 9)]
        assert shown.notes == []


async def test_so_many_from_an_offset_and_then_the_end(autojump_clock: MockClock) -> None:
    async with scene(queues=1) as s:
        await s.world.send(3)
        shown = Shown()
        tail = Tail(
            s.admin, Request(topic="Orders", start=Start("begin"), count=5, follow=True), shown.emit, shown.notes.append
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tail.run)
            await trio.sleep(30)
            await s.world.send(10, start=3)
        assert shown.bodies == [b"0", b"1", b"2", b"3", b"4"]


async def test_queues_that_are_added_are_followed(autojump_clock: MockClock) -> None:
    async with scene(queues=1) as s:
        await s.world.send(2)
        async with following(s) as shown:
            await s.world.producer.create_topic("Orders", queues=2)
            await s.world.producer.send(Message("Orders", b"new"), queue=MessageQueue("Orders", "broker-a", 0))
            await wait_until(lambda: shown.notes == ["following Orders@broker-a:1 too"])
            await s.world.producer.client.routes.refresh("Orders")
            await s.world.producer.send(Message("Orders", b"there"), queue=MessageQueue("Orders", "broker-a", 1))
            await wait_until(lambda: b"there" in shown.bodies)
        assert shown.bodies == [b"0", b"1", b"new", b"there"]


async def test_a_broker_that_fails_is_tried_again(autojump_clock: MockClock) -> None:
    async with scene(2, queues=1) as s:
        await s.world.send(2)
        async with following(s) as shown:
            await wait_until(lambda: len(shown.messages) == 2)
            s.down(0)
            await wait_until(lambda: shown.notes)
            assert shown.notes[0].startswith("Orders@broker-a:0 cannot be read now: ")
            await trio.sleep(30)
            assert len(shown.notes) == 1  # said once
            queue = MessageQueue("Orders", "broker-b", 0)
            await s.world.producer.send(Message("Orders", b"meanwhile"), queue=queue)
            await wait_until(lambda: b"meanwhile" in shown.bodies)
            s.up(0)
            await s.world.producer.send(Message("Orders", b"again"), queue=queue._replace(broker_name="broker-a"))
            await wait_until(lambda: b"again" in shown.bodies)
            assert shown.notes[1:] == ["broker-a can be read again"]


async def test_a_broker_that_is_down_at_the_beginning_joins_later(autojump_clock: MockClock) -> None:
    async with scene(2, queues=1) as s:
        await s.world.send(4)
        await trio.sleep(1)
        s.down(0)
        async with following(s) as shown:
            await wait_until(lambda: shown.messages and shown.notes)
            assert {each.broker_name for each in shown.messages} == {"broker-b"}
            s.up(0)
            await wait_until(lambda: len(shown.notes) == 2)
            queue = MessageQueue("Orders", "broker-a", 0)
            await s.world.producer.send(Message("Orders", b"again"), queue=queue)
            await wait_until(lambda: b"again" in shown.bodies)
            before = [each for each in shown.messages if each.broker_name == "broker-a"]
            assert [each.body for each in before] == [b"again"]  # not what was stored before the beginning


async def test_without_following_the_brokers_that_answer_are_shown_before_the_failure(
    autojump_clock: MockClock,
) -> None:
    async with scene(2, queues=1) as s:
        await s.world.send(4)
        s.down(0)
        shown = Shown()
        for start in (Start(), Start("begin")):
            with pytest.raises(BrokersFailedError, match="reading Orders failed on 1 of 2 servers") as caught:
                await Tail(s.admin, Request(topic="Orders", start=start), shown.emit, shown.notes.append).run()
            assert (list(caught.value.failures), caught.value.done) == (["broker-a"], ("broker-b",))
        assert len(shown.messages) == 4
        s.down(1)
        with pytest.raises(BrokersFailedError, match="failed on 2 of 2"):
            await Tail(s.admin, Request(topic="Orders", follow=True), shown.emit, shown.notes.append).run()


async def test_a_topic_that_is_made_again_is_followed_from_its_end(autojump_clock: MockClock) -> None:
    async with scene(queues=1) as s:
        await s.world.send(3)
        async with following(s, start=Start("end")) as shown:
            await s.admin.topics.delete("Orders")
            await s.world.producer.create_topic("Orders", queues=1)
            await s.world.send(1, start=8)
            await wait_until(
                lambda: "Orders@broker-a:0 ends at offset 1, before 3; continuing at its end" in shown.notes
            )
            await s.world.send(1, start=9)
            await wait_until(lambda: b"9" in shown.bodies)


async def test_a_damaged_message_is_left_out(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(queues=1) as s:
        await s.world.send(5)
        ask, before = PullForm.ask, await s.admin.messages.read(MessageQueue("Orders", "broker-a", 0), max_messages=2)

        async def damaged(form: PullForm, pool: Any, address: str, offset: int, *more: Any, **named: Any) -> Any:
            if offset == 0:
                raise MessageDecodeError("its checksum is wrong", decoded=before)
            return await ask(form, pool, address, offset, *more, **named)

        monkeypatch.setattr(PullForm, "ask", damaged)
        shown = Shown()
        await Tail(s.admin, Request(topic="Orders", start=Start("begin")), shown.emit, shown.notes.append).run()
        assert shown.bodies == [b"0", b"1", b"3", b"4"]
        assert shown.notes == ["the message at Orders@broker-a:0+2 is damaged and left out: its checksum is wrong"]


async def test_a_batch_that_is_damaged_inside_is_left_out(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(queues=1) as s:
        await s.world.send(5)
        ask = PullForm.ask
        batch = stored(1, body=b"no batch", sys_flag=INNER_BATCH | NEED_UNWRAP)

        async def answered(form: PullForm, pool: Any, address: str, offset: int, *more: Any, **named: Any) -> Any:
            found = await ask(form, pool, address, offset, *more, **named)
            if offset < 4:  # whichever of its offsets is asked for, a batch is returned whole
                return attrs.evolve(found, messages=[stored(0, body=b"0"), batch, stored(4)][offset > 0 :])
            return found

        monkeypatch.setattr(PullForm, "ask", answered)
        shown = Shown()
        await Tail(s.admin, Request(topic="Orders", start=Start("begin")), shown.emit, shown.notes.append).run()
        assert shown.bodies == [b"0", b"4"]
        assert len(shown.notes) == 1
        assert shown.notes[0].startswith(
            "the message at Orders@broker-a:0+1 is damaged and left out: item 0 of a batch"
        )


async def test_a_broker_that_does_not_hold_pulls_is_not_asked_all_the_time(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(queues=1) as s:
        ask, asked = PullForm.ask, []

        async def at_once(
            form: PullForm, pool: Any, address: str, offset: int, flag: int, *more: Any, **named: Any
        ) -> Any:
            asked.append(trio.current_time())
            return await ask(form, pool, address, offset, flag & ~PullSysFlag.SUSPEND, *more, **named)

        monkeypatch.setattr(PullForm, "ask", at_once)
        async with following(s) as shown:
            await trio.sleep(10)
            await s.world.send(1)
            await wait_until(lambda: shown.messages)
        assert len(asked) <= 60
