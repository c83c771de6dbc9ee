"""Groups that an administrator sets to another position: noted by the broker, or told to the clients."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest
import trio
from trio.testing import MockClock

from rocketpy.message import MessageQueue
from rocketpy.remoting.answers import answer_frame
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.seams import wall_clock
from rocketpy.wire.bodies.offsets import ResetOffsetBody, ResetOffsetBodyForC
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.codes import LanguageCode, RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.offset import ResetOffsetRequestHeader
from rocketpy.wire.headers.pull import PullMessageResponseHeader
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.broker.processors.reset_offset import reset_offset
from rocketpy_broker_sim.serving.slices import SLICE_SECONDS, Steadily
from tests.broker_sim.broker.kit import SUBSCRIPTION, SUSPEND, Client, bodies, broker_and_client, client_of
from tests.virtual_time import loop_time

EPOCH = 1_800_000_000_000


@pytest.fixture(autouse=True)
def virtual() -> Iterator[None]:
    """Wall time that goes with the virtual clock of the loop."""
    with wall_clock(loop_time(EPOCH)):
        yield


async def reset(client: Client, topic: str = "T", **fields: Any) -> RemotingCommand:
    header = ResetOffsetRequestHeader(**({"group": "g", "topic": topic, "timestamp": -1, "is_force": True} | fields))
    return await client.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header.to_ext())


def table(answer: RemotingCommand) -> dict[int, int]:
    assert answer.code == 0, answer.remark
    return {queue.queue_id: offset for queue, offset in ResetOffsetBody.decode(answer.body).offset_table.items()}


async def filled(client: Client) -> int:
    """Five messages in queue 0 and two in queue 1, a group that has read them all; the time before the third."""
    between = 0
    for number in range(5):
        if number == 2:
            between = EPOCH + int(trio.current_time() * 1000)
        await client.send(body=b"%d" % number)
        if number < 2:
            await client.send(queue_id=1)
        await trio.sleep(1)
    await client.heartbeat("g", "T")
    for queue, offset in ((0, 5), (1, 2), (2, 0), (3, 0)):
        fields = {"consumerGroup": "g", "topic": "T", "queueId": str(queue), "commitOffset": str(offset)}
        assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == 0
    return between


async def query(client: Client, queue: int = 0) -> int:
    fields = {"consumerGroup": "g", "topic": "T", "queueId": str(queue)}
    return int((await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)).ext_fields["offset"])


async def test_OF4_all_queues_are_set_to_a_time(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        between = await filled(client)
        answer = await reset(client, timestamp=between)
        assert ResetOffsetBody.decode(answer.body).offset_table[MessageQueue("T", broker.config.broker_name, 0)] == 2
        assert table(answer) == {0: 2, 1: 2, 2: 0, 3: 0}
        assert await query(client) == 2
        assert table(await reset(client, timestamp=0)) == {0: 0, 1: 0, 2: 0, 3: 0}
        assert table(await reset(client, timestamp=-1)) == {0: 5, 1: 2, 2: 0, 3: 0}


async def test_OF4_one_queue_is_set_to_an_offset_or_a_time(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        between = await filled(client)
        assert table(await reset(client, queue_id=0, offset=3)) == {0: 3}
        assert table(await reset(client, queue_id=0, timestamp=between)) == {0: 2}
        assert table(await reset(client, queue_id=1, offset=-1)) == {1: 2}
        refused = await reset(client, queue_id=0, offset=6)
        assert (refused.code, "from 0 to 5" in (refused.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
        assert (await reset(client, queue_id=9, offset=0)).code == ResponseCode.INVALID_PARAMETER


async def test_OF4_a_pull_hears_of_it_and_commits_do_not_count_before_it_is_taken_up(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        await filled(client)
        await reset(client, queue_id=0, offset=1)
        fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "5"}
        await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
        assert await query(client) == 1
        told = await client.pull(offset=5, sys_flag=SUBSCRIPTION | 1, commit_offset=5)
        assert told.code == ResponseCode.PULL_OFFSET_MOVED
        header = PullMessageResponseHeader.from_ext(told.ext_fields)
        assert (header.next_begin_offset, header.min_offset, header.max_offset) == (1, 0, 5)
        await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
        assert await query(client) == 1
        assert bodies(await client.pull(offset=1)) == [b"1", b"2", b"3", b"4"]
        await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
        assert await query(client) == 5


async def test_OF4_a_held_pull_hears_of_it_at_once(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        await filled(client)
        answers = []

        async def wait() -> None:
            answers.append(await client.pull(offset=5, sys_flag=SUBSCRIPTION | SUSPEND))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(1)
            assert (await reset(client, queue_id=0, offset=0)).code == 0
            reset_at = trio.current_time()
        assert trio.current_time() == reset_at
        assert [(a.code, a.ext_fields["nextBeginOffset"]) for a in answers] == [(ResponseCode.PULL_OFFSET_MOVED, "0")]


@pytest.mark.parametrize("given_up", ["by another client", "by the same client"])
async def test_OF4_a_pull_that_was_given_up_does_not_use_a_reset_up(autojump_clock: MockClock, given_up: str) -> None:
    """The queue has moved to another member, or its member pulls with another filter: the answer is discarded."""
    network = MemoryNetwork()
    answers = []

    async def wait(asking: Client) -> None:
        answers.append(await asking.pull(offset=5, sys_flag=SUBSCRIPTION | SUSPEND))

    async with broker_and_client(network) as (broker, client), client_of(network, broker.address) as owner:
        await filled(client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, client)
            if given_up == "by another client":
                nursery.start_soon(wait, owner)
            await trio.sleep(1)
            assert (await reset(client, queue_id=0, offset=2)).code == 0
        if given_up == "by the same client":
            owner = client
            await wait(owner)
        assert [(a.code, a.ext_fields["nextBeginOffset"]) for a in answers] == [
            (ResponseCode.PULL_OFFSET_MOVED, "2"),
            (ResponseCode.PULL_OFFSET_MOVED, "2"),
        ]
        assert bodies(await owner.pull(offset=2)) == [b"2", b"3", b"4"]
        assert (await client.pull(offset=5)).code == ResponseCode.PULL_NOT_FOUND


async def test_OF4_what_is_not_there_cannot_be_reset(autojump_clock: MockClock) -> None:
    async with broker_and_client(auto_create_subscription_group=False) as (_, client):
        await client.send()
        assert (await reset(client, topic="Unknown")).code == ResponseCode.TOPIC_NOT_EXIST
        assert (await reset(client)).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert (await reset(client, topic="../x")).code == ResponseCode.INVALID_PARAMETER


# --- told to the clients -------------------------------------------------------------------------------


async def test_OF4_clients_are_told_where_the_broker_does_not_do_it(autojump_clock: MockClock) -> None:
    async with broker_and_client(use_server_side_reset_offset=False) as (_, client):
        between = await filled(client)
        assert table(await reset(client, timestamp=between, is_force=False)) == {0: 2, 1: 2, 2: 0, 3: 0}
        await trio.sleep(0.1)
        [told] = [each for each in client.received if each.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET]
        assert told.is_oneway
        header = ResetOffsetRequestHeader.from_ext(told.ext_fields)
        assert (header.group, header.topic, header.timestamp) == ("g", "T", between)
        offsets = ResetOffsetBody.decode(told.body).offset_table
        assert {queue.queue_id: offset for queue, offset in offsets.items()} == {0: 2, 1: 2, 2: 0, 3: 0}
        assert await query(client) == 5, "the client commits it, not the broker"
        assert (await client.pull(offset=5)).code == ResponseCode.PULL_NOT_FOUND


async def test_OF4_clients_go_forward_only_when_that_is_forced(autojump_clock: MockClock) -> None:
    async with broker_and_client(use_server_side_reset_offset=False) as (broker, client):
        await filled(client)
        broker.offsets.commit("g", "T", 0, 1)
        assert table(await reset(client, timestamp=-1, is_force=False))[0] == 1
        assert table(await reset(client, timestamp=-1, is_force=True))[0] == 5


async def test_OF4_a_client_in_cpp_gets_a_list(autojump_clock: MockClock) -> None:
    async with broker_and_client(use_server_side_reset_offset=False) as (broker, client):
        await filled(client)
        [member] = broker.clients.consumers.clients("g")
        member.language = LanguageCode.CPP
        await reset(client, timestamp=0)
        await trio.sleep(0.1)
        found = ResetOffsetBodyForC.decode(client.received[-1].body).offset_table
        assert {(each.topic, each.queue_id, each.offset) for each in found} == {("T", n, 0) for n in range(4)}


async def test_OF4_nobody_can_be_told_who_is_away_too_old_or_new(autojump_clock: MockClock) -> None:
    async with broker_and_client(use_server_side_reset_offset=False) as (broker, client):
        await client.send()
        await client.heartbeat("g", "T")
        assert (await reset(client)).code == ResponseCode.SYSTEM_ERROR
        await filled(client)
        [member] = broker.clients.consumers.clients("g")
        member.version = 20
        assert (await reset(client)).code == ResponseCode.SYSTEM_ERROR
        broker.clients.consumers.unregister("g", member.channel)
        assert (await reset(client)).code == ResponseCode.CONSUMER_NOT_ONLINE


# --- of very many queues -------------------------------------------------------------------------------


@pytest.mark.slow
async def test_eight_resets_of_very_many_queues_hold_up_nobody_else(autojump_clock: MockClock) -> None:
    """They come in one piece; each is carried out in slices, in the order in which they came."""
    network = MemoryNetwork()
    async with broker_and_client(network, default_topic_queue_nums=1) as (broker, client):
        broker.slices._clock = Steadily(SLICE_SECONDS / 50)
        broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=2048, write_queue_nums=2048))
        broker.groups.find("g")
        answers: list[RemotingCommand] = []
        others = 0
        async with client_of(network, broker.address) as other, trio.open_nursery() as nursery:

            async def ask() -> None:
                answers.append(await reset(client))

            for _ in range(8):
                nursery.start_soon(ask)
            while len(answers) < 8:
                assert (await other.heartbeat("h", "T")).code == 0
                others += 1
        assert others >= 50
        assert all(len(table(answer)) == 2048 for answer in answers)


@pytest.mark.slow
async def test_a_reset_of_very_many_queues_takes_little_more_memory_than_it_leaves(autojump_clock: MockClock) -> None:
    """What it leaves is where the group stands, where it is to go, and the answer: none of them is there twice."""
    count = 16_384
    async with broker_and_client() as (broker, _):
        broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=count, write_queue_nums=count))
        broker.groups.find("g")
        header = ResetOffsetRequestHeader(group="g", topic="T", timestamp=-1, is_force=True)
        request = RemotingCommand(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header.to_ext())
        connection = Mock(prepare_answer=lambda request, answer: answer_frame(request, answer, ""))
        tracemalloc.start()
        try:
            assert run_steps(reset_offset(broker._views.reset_offset, connection, request)) is None
            left, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(broker.offsets.queues("g", "T")) == count
        assert peak < 1.2 * left, (peak, left)


async def test_a_reset_whose_client_goes_is_done_for_all_queues_or_none(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, _):
        broker.slices._clock = Steadily(SLICE_SECONDS / 50)
        broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=500, write_queue_nums=500))
        broker.groups.find("g")
        seen = set()
        for turns in range(0, 60, 2):
            async with client_of(network, broker.address) as going:
                header = ResetOffsetRequestHeader(group="g", topic="T", timestamp=-1, is_force=True)
                going.connection.send_oneway(
                    RemotingCommand.oneway(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header.to_ext())
                )
                for _ in range(turns):
                    await trio.lowlevel.checkpoint()
                going.connection.close()
            await trio.sleep(1)
            seen.add(len(broker.offsets.queues("g", "T")))
            broker.offsets.remove_group("g")
        assert seen == {0, 500}


async def test_a_reset_that_the_table_of_offsets_cannot_take_changes_nothing(autojump_clock: MockClock) -> None:
    async with broker_and_client(max_consumer_offsets=5) as (broker, client):
        broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=6, write_queue_nums=6))
        broker.groups.find("g")
        answer = await reset(client)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "offsets of consumers" in (answer.remark or "")
        assert broker.offsets.queues("g", "T") == {}


@pytest.mark.parametrize("again", [False, True])
async def test_a_reset_leaves_nothing_of_a_topic_that_is_deleted_meanwhile(
    autojump_clock: MockClock, again: bool
) -> None:
    async with broker_and_client() as (broker, client):
        await filled(client)
        header = ResetOffsetRequestHeader(group="g", topic="T", timestamp=-1, is_force=True)
        request = RemotingCommand(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header.to_ext())
        steps = reset_offset(broker._views.reset_offset, client.connection, request)
        for _ in range(5):  # one for each of the four queues, and one for the answer
            next(steps)
        assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})).code == 0
        if again:
            await client.send()
        with pytest.raises(StopIteration) as end:
            next(steps)
        assert end.value.value.code == (ResponseCode.SYSTEM_ERROR if again else ResponseCode.TOPIC_NOT_EXIST)
        assert broker.offsets.queues("g", "T") == {}


@pytest.mark.parametrize(("steps_before", "told"), [(5, 0), (6, 1)])
@pytest.mark.parametrize("again", [False, True])
async def test_clients_are_told_nothing_of_a_topic_that_is_deleted_meanwhile(
    autojump_clock: MockClock, again: bool, steps_before: int, told: int
) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network, use_server_side_reset_offset=False) as (broker, client):
        await filled(client)
        async with client_of(network, broker.address) as other:
            await other.heartbeat("g", "T", client_id="c2")
            header = ResetOffsetRequestHeader(group="g", topic="T", timestamp=-1, is_force=True)
            request = RemotingCommand(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header.to_ext())
            steps = reset_offset(broker._views.reset_offset, client.connection, request)
            for _ in range(steps_before):  # one for each of the four queues, one for the body, and one for each client
                next(steps)
            assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})).code == 0
            if again:
                await client.send()
            with pytest.raises(StopIteration) as end:
                next(steps)
            assert end.value.value.code == (ResponseCode.SYSTEM_ERROR if again else ResponseCode.TOPIC_NOT_EXIST)
            await trio.sleep(1)
            codes = [each.code for each in (*client.received, *other.received)]
            assert codes.count(RequestCode.RESET_CONSUMER_CLIENT_OFFSET) == told
