"""The gate: what waits for a position of the log, what waits for the name servers, and how much may wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.errors import StoreError
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy_broker_sim.broker.flushing import flusher
from rocketpy_broker_sim.broker.flushing.gate import Durability, Progress
from rocketpy_broker_sim.broker.putting.put_times import PutTimes
from rocketpy_broker_sim.broker.replies import Reply
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.flushing.test_flusher import Hanging
from tests.broker_sim.broker.kit import bodies, broker_and_client, send_fields


class Log:
    """How far a log is."""

    buffered_position = written_position = flushed_position = 0


class Peer:
    """Keeps what it is answered."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, int]] = []

    def send_answer(self, request: RemotingCommand, answer: RemotingCommand) -> None:
        self.answers.append((request.opaque, answer.code))


def reply(peer: Peer, opaque: int, position: int, *, new_topic: str | None = None) -> Reply:
    request = RemotingCommand(RequestCode.SEND_MESSAGE_V2, body=b"large", opaque=opaque)
    return Reply(peer, request, request.answer(), position, for_disk=True, new_topic=new_topic)


async def test_a_task_waits_for_a_position_and_no_shorter(autojump_clock: MockClock) -> None:
    log, reached = Log(), []
    progress = Progress(lambda: log.written_position)

    async def wait(position: int) -> None:
        await progress.reach(position)
        reached.append(position)

    async with trio.open_nursery() as nursery:
        for position in (10, 20, 30):
            nursery.start_soon(wait, position)
        for written, expected in ((9, []), (10, [10]), (25, [10, 20]), (30, [10, 20, 30])):
            await wait_all_tasks_blocked()
            log.written_position = written
            progress.note()
            await wait_all_tasks_blocked()
            assert sorted(reached) == expected


async def test_answers_leave_in_order_when_the_disk_has_their_messages(autojump_clock: MockClock) -> None:
    log, peer = Log(), Peer()
    gate = Durability(log, PutTimes(trio.current_time), sync_timeout=5)
    for number in (1, 2, 3):
        assert not gate.pass_on(reply(peer, number, number * 100))
    log.flushed_position = 200
    gate.release()
    assert (peer.answers, len(gate)) == ([(1, 0), (2, 0)], 1)
    gate.refuse()
    assert peer.answers[2:] == [(3, ResponseCode.SERVICE_NOT_AVAILABLE)]
    assert len(gate) == 0


async def test_an_answer_that_waits_does_not_keep_the_body_of_its_request(autojump_clock: MockClock) -> None:
    gate = Durability(Log(), PutTimes(trio.current_time), sync_timeout=5)
    waiting = reply(Peer(), 1, 100)
    gate.pass_on(waiting)
    assert (waiting.request.body, waiting.request.opaque) == (b"", 1)


async def test_the_first_send_to_a_topic_also_waits_until_the_name_servers_have_heard(
    autojump_clock: MockClock,
) -> None:
    heard: dict[str, Callable[[], object]] = {}
    log, peer = Log(), Peer()
    gate = Durability(log, PutTimes(trio.current_time), sync_timeout=5, announce=heard.__setitem__)
    gate.pass_on(reply(peer, 1, 100, new_topic="T"))
    gate.pass_on(reply(peer, 2, 200))
    assert heard == {}
    log.flushed_position = 200
    gate.release()
    assert peer.answers == [(2, 0)]
    heard["T"]()
    assert peer.answers == [(2, 0), (1, 0)]


async def test_more_sends_than_may_wait_for_the_disk_are_refused_before_they_are_stored(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"flush_disk_type": "SYNC_FLUSH", "send_thread_pool_queue_capacity": 5}
    async with broker_and_client(**settings) as (broker, client):
        await client.send(body=b"first")
        monkeypatch.setattr(flusher, "run_blocking", Hanging(3))
        codes: list[int] = []

        async def send() -> None:
            answer = await client.send(body=b"x")
            codes.append(answer.code)
            if answer.code:
                assert "wait for the disk" in answer.remark

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(send)
                await wait_all_tasks_blocked()
            assert codes == [ResponseCode.SYSTEM_BUSY] * 3
            assert len(broker.storing.gate) == 5
            # Who does not wait for the disk takes no place among those who do.
            assert (await client.send(properties="WAIT\x01false\x02")).code == 0
        assert codes[3:] == [0] * 5
        assert (await client.send(body=b"again")).code == 0
        assert len(bodies(await client.pull())) == 8


async def test_a_flush_that_somebody_else_did_lets_answers_go_and_consumers_read(autojump_clock: MockClock) -> None:
    async with broker_and_client(flush_disk_type="SYNC_FLUSH") as (broker, client):
        broker.store.flushing.commit_log.flush()

        def and_flush(processor):
            def process(connection, request):
                answer = processor(connection, request)
                broker.store.commit_pending()
                broker.store.flushing.commit_log.flush()
                return answer

            return process

        broker.lanes.replace(RequestCode.SEND_MESSAGE_V2, and_flush)
        began = trio.current_time()
        assert (await client.send(body=b"flushed")).code == 0
        assert trio.current_time() == began
        assert bodies(await client.pull()) == [b"flushed"]


async def test_an_only_send_that_is_one_way_is_readable_once_the_disk_has_it(autojump_clock: MockClock) -> None:
    async with broker_and_client(flush_disk_type="SYNC_FLUSH") as (_, client):
        client.connection.send_oneway(RemotingCommand.oneway(310, send_fields("T"), b"one way"))
        await trio.sleep(0.01)
        assert bodies(await client.pull()) == [b"one way"]


async def test_a_flush_that_fails_once_is_tried_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the log itself can still be flushed: what the store says is for good, it says each time."""
    storage = MemoryStorage()
    async with broker_and_client(storage=storage, flush_disk_type="SYNC_FLUSH") as (broker, client):
        flush, failures = broker.store.flushing.commit_log.flush, [StoreError("no descriptor is left")]

        def sometimes() -> None:
            if failures:
                raise failures.pop()
            flush()

        monkeypatch.setattr(broker.store.flushing.commit_log, "flush", sometimes)
        answer = await client.send(body=b"unknown")
        assert (answer.code, "unknown" in answer.remark) == (ResponseCode.SERVICE_NOT_AVAILABLE, True)
        assert (await client.send(body=b"known")).code == 0
        assert bodies(await client.pull()) == [b"unknown", b"known"]
