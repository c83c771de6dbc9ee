"""`send_many`: which messages travel together, how many frames are under way, and how large they are."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rocketpy.client.sends.selection import sharding_queue
from rocketpy.errors import (
    ConfigError,
    SendManyError,
)
from rocketpy.message import Message
from rocketpy.results import SendManyResult
from tests.producer.brokers import SendBroker
from tests.producer.many import ILLEGAL, Slow, bodies, numbered


async def test_messages_travel_in_frames_and_all_of_them_arrive(autojump_clock, opened):
    broker = SendBroker()
    async with opened(broker) as (producer, _):
        result = await producer.send_many(numbered(25), batch_size=10)
    assert result == SendManyResult(messages=25, frames=3, bytes=40, failed=0)
    assert sorted(map(bodies, broker.taken), key=lambda frame: int(frame[0])) == [
        [b"%d" % number for number in range(start, min(start + 10, 25))] for start in (0, 10, 20)
    ]
    assert len({taken.header.queue_id for taken in broker.taken}) == 3


async def test_arguments_that_cannot_be_used_are_refused(autojump_clock, opened):
    async with opened() as (producer, _):

        async def awaited(error):
            pass

        for fields in (
            {"batch_size": 0},
            {"on_failure": awaited},
            {"batch_size": True},
            {"timeout": 0},
            {"on_failure": "print"},
        ):
            with pytest.raises(ConfigError):
                await producer.send_many([], **fields)
        with pytest.raises(ConfigError, match="iterable of messages"):
            await producer.send_many(5)
        assert await producer.send_many([]) == SendManyResult(0, 0, 0, 0)


# --- what is under way ---------------------------------------------------------------------------------


async def test_frames_are_pipelined_within_the_bounds_and_messages_taken_only_as_there_is_room(autojump_clock, opened):
    taken = 0

    def counted():
        nonlocal taken
        for message in numbered(200):
            taken += 1
            yield message

    broker = Slow()
    async with opened(broker, back_pressure_for_async_send_num=40) as (producer, _), trio.open_nursery() as nursery:
        await producer.send(Message("T", b"connects"))
        nursery.start_soon(lambda: producer.send_many(counted(), batch_size=10))
        await wait_all_tasks_blocked()
        assert (len(broker.due), taken) == (4, 50)
        await broker.release_all()
    assert (broker.most, broker.most_messages) == (4, 40)
    assert [body for each in broker.taken[1:] for body in bodies(each)] == [b"%d" % number for number in range(200)]


async def test_bytes_under_way_are_bounded_too(autojump_clock, opened):
    broker = Slow()
    async with (
        opened(broker, back_pressure_for_async_send_size=1000, compress_body_over=5000) as (producer, _),
        trio.open_nursery() as nursery,
    ):
        await producer.send(Message("T", b"connects"))
        messages = [Message("T", b"x" * size) for size in [100] * 30 + [4000] + [100] * 10]
        nursery.start_soon(producer.send_many, messages)
        await broker.release_all()
    sizes = [sum(map(len, bodies(each))) for each in broker.taken[1:]]
    assert (sum(sizes), max(sizes), broker.most) == (8000, 4000, 2)
    assert sizes[:6] == [500] * 6


@pytest.mark.parametrize("awaited", [False, True], ids=["iterable", "async iterable"])
async def test_no_more_bytes_are_taken_than_there_is_room_for(autojump_clock, opened, awaited):
    taken = 0

    def counted():
        nonlocal taken
        for _ in range(100):
            taken += 1
            yield Message("T", b"x" * 600)

    async def slowly():
        for each in counted():
            yield each

    broker = Slow()
    async with opened(broker, back_pressure_for_async_send_size=4000) as (producer, _), trio.open_nursery() as nursery:
        await producer.send(Message("T", b"connects"))
        nursery.start_soon(producer.send_many, slowly() if awaited else counted())
        await wait_all_tasks_blocked()
        assert [len(held) for _, _, held in broker.due] == [3, 3]
        assert taken == 10  # two frames that fly, one that waits for room, and one that did not fit into it
        await broker.release_all()
    assert sum(len(bodies(each)) for each in broker.taken[1:]) == 100


async def test_with_one_message_under_way_nothing_is_pipelined(autojump_clock, opened):
    broker = Slow()
    async with opened(broker, back_pressure_for_async_send_num=1) as (producer, _), trio.open_nursery() as nursery:
        await producer.send(Message("T", b"connects"))
        nursery.start_soon(producer.send_many, numbered(5))
        await broker.release_all()
    assert (broker.most, broker.most_messages, len(broker.taken)) == (1, 1, 6)


async def test_frames_of_one_queue_follow_each_other_and_queues_do_not_wait_for_others(autojump_clock, opened):
    keys = "abcdefgh"
    messages = [Message("T", b"%d" % number, sharding_key=keys[number % 8]) for number in range(160)]
    broker = Slow()
    async with opened(broker) as (producer, _), trio.open_nursery() as nursery:
        await producer.send(Message("T", b"connects"))
        queues = await producer.queues("T")
        nursery.start_soon(lambda: producer.send_many(messages, batch_size=4))
        await wait_all_tasks_blocked()
        used = {sharding_queue(queues, key).queue_id for key in keys}
        assert sorted(each.header.queue_id for each in broker.taken[1:]) == sorted(used)  # one of each
        while broker.due:
            broker.release(-1)
            await wait_all_tasks_blocked()
    assert broker.most == len(used) > 1
    got = {queue: [] for queue in used}
    for each in broker.taken[1:]:
        got[each.header.queue_id] += bodies(each)
    for queue, found in got.items():
        key_of = {message.body: message.sharding_key for message in messages}
        assert {sharding_queue(queues, key_of[body]).queue_id for body in found} == {queue}
        assert found == sorted(found, key=int)
    assert sum(map(len, got.values())) == 160


async def test_sharding_keys_follow_a_route_that_changes_between_the_messages(autojump_clock, opened):
    keys = "abcdefgh"
    broker = SendBroker()
    async with opened(broker, poll_name_server_interval=10) as (producer, world):
        queues = [await producer.queues("T")]

        async def messages():
            for key in keys:
                yield Message("T", key.encode(), sharding_key=key)
            world.route("T", broker, write=8)
            await trio.sleep(15)
            queues.append(await producer.queues("T"))
            for key in keys:
                yield Message("T", key.upper().encode(), sharding_key=key)

        assert (await producer.send_many(messages(), batch_size=len(keys))).messages == 16
    used = {body: each.header.queue_id for each in broker.taken for body in bodies(each)}
    before, after = ({key: sharding_queue(each, key).queue_id for key in keys} for each in queues)
    assert before != after
    assert used == {key.encode(): place for key, place in before.items()} | {
        key.upper().encode(): place for key, place in after.items()
    }


async def test_delayed_messages_and_topics_go_in_frames_of_their_own(autojump_clock, opened):
    broker = SendBroker()
    messages = [Message("T", b"1"), Message("T", b"2", delay_level=3), Message("T", b"3", wait_store_ok=False)]
    messages += [Message("T", b"4"), Message("U", b"5")]
    async with opened(broker) as (producer, world):
        world.route("U", broker)
        result = await producer.send_many(messages)
    assert (result.messages, result.frames) == (5, 4)
    assert sorted(bodies(each) for each in broker.taken) == [[b"1", b"4"], [b"2"], [b"3"], [b"5"]]
    [delayed] = [each for each in broker.taken if each.body == b"2"]
    assert delayed.properties["DELAY"] == "3"


async def test_what_can_be_awaited_is_taken_as_well(autojump_clock, opened):
    async def slowly():
        for number in range(25):
            await trio.sleep(0.01)
            yield Message("T", b"%d" % number)

    broker = SendBroker()
    async with opened(broker) as (producer, _):
        result = await producer.send_many(slowly(), batch_size=10)
    assert (result.messages, result.frames) == (25, 3)


# --- sizes ---------------------------------------------------------------------------------------------


async def test_properties_that_make_a_frame_too_large_part_it(autojump_clock, opened):
    broker = SendBroker()
    messages = [Message("T", b"x", properties={"p": "v" * 500}) for _ in range(64)]
    async with opened(broker, max_message_size=10_000) as (producer, _):
        result = await producer.send_many(messages)
    assert (result.messages, result.frames) == (64, 4)
    assert all(len(each.body) <= 10_000 for each in broker.taken)


async def test_a_message_that_is_too_large_is_named_and_the_others_go(autojump_clock, opened):
    messages = [*numbered(5)]
    messages[2].body = b"x" * 101
    failures = []
    async with opened(SendBroker(), max_message_size=100) as (producer, _):
        result = await producer.send_many(messages, on_failure=failures.append)
        with pytest.raises(SendManyError, match=r"message 2 \(keys 'k2'\).*101 bytes, the limit is 100: send less"):
            await producer.send_many(messages)
    assert [(each.first, each.last) for each in failures] == [(2, 2)]
    assert result.messages == 4


async def test_a_broker_that_takes_less_soon_gets_frames_of_its_size(autojump_clock, opened):
    class Small(SendBroker):
        def send(self, connection, request):
            if len(request.body) > 100_000:
                self.script.insert(0, ILLEGAL)
            return super().send(connection, request)

    broker = Small()
    async with opened(broker, back_pressure_for_async_send_num=128) as (producer, _):
        result = await producer.send_many((Message("T", b"x" * 4000) for _ in range(1000)), batch_size=64)
    assert (result.messages, result.bytes) == (1000, 4_000_000)
    assert all(len(each.body) <= 100_000 for each in broker.taken[-30:])
