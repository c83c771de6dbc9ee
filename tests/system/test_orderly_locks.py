"""The locks of queues that are consumed in order: had, renewed, in doubt, lost, given back. All in virtual time."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.config import PushConsumerConfig
from rocketpy.consumer.push import PushConsumer
from rocketpy.errors import ConfigError, ConnectionLostError
from rocketpy.message import Message, MessageExt, MessageQueue
from rocketpy.remoting.connection import Connection
from rocketpy.results import ConsumeFromWhere
from rocketpy.wire.bodies.locks import LockBatchRequestBody, LockBatchResponseBody
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from tests.consumer import brokers as scripted
from tests.system.cable import Cable
from tests.system.consuming import Recorder, World, wait_until, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def orderly(w: World | scripted.World, listener: Any, **settings: Any) -> PushConsumer:
    consumer = w.consumer(orderly=True, consume_from_where=FIRST, **settings)
    consumer.subscribe("Orders", listener)
    return consumer


class Locks:
    """Answers LOCK_BATCH_MQ and UNLOCK_BATCH_MQ for a scripted broker, and remembers."""

    def __init__(self, broker: scripted.PullBroker) -> None:
        self.foreign: set[MessageQueue] = set()
        """What another member has."""
        self.silent = False
        self.asked: list[tuple[float, list[MessageQueue]]] = []
        self.unlocked: list[MessageQueue] = []
        broker.on(RequestCode.LOCK_BATCH_MQ, self.lock)
        broker.on(RequestCode.UNLOCK_BATCH_MQ, self.unlock)

    def lock(self, _: object, request: RemotingCommand) -> RemotingCommand | None:
        body = LockBatchRequestBody.decode(request.body)
        self.asked.append((trio.current_time(), sorted(body.mq_set)))
        if self.silent:
            return None
        return request.answer(body=LockBatchResponseBody(lock_ok_mq_set=body.mq_set - self.foreign).encode())

    def unlock(self, _: object, request: RemotingCommand) -> None:
        assert request.is_oneway
        self.unlocked += LockBatchRequestBody.decode(request.body).mq_set

    def times(self, topic: str = "Orders") -> list[float]:
        return [at for at, queues in self.asked if any(queue.topic == topic for queue in queues)]


# --- asking -------------------------------------------------------------------------------------------------


async def test_a_broker_is_asked_for_all_of_its_queues_at_once_and_again_every_20_seconds(
    autojump_clock: MockClock,
) -> None:
    async with scripted.world("broker-a", "broker-b", queues=3) as w:
        locks = [Locks(broker) for broker in w.brokers]
        began = trio.current_time()
        async with orderly(w, Recorder(), consumer_timeout_when_suspend=100.0):
            await trio.sleep(41)
    for lock, name in zip(locks, ("broker-a", "broker-b"), strict=True):
        mine = [MessageQueue("Orders", name, number) for number in range(3)]
        retry = [MessageQueue("%RETRY%billing", name, 0)]
        assert sorted(queues for _, queues in lock.asked[:2]) == sorted([mine, retry])
        renewals = [(at - began, queues) for at, queues in lock.asked[2:]]
        assert [queues for _, queues in renewals] == [sorted(mine + retry)] * 2
        assert [at for at, _ in renewals] == pytest.approx([20, 40])
        assert sorted(lock.unlocked) == sorted(mine + retry)


async def test_PC3_nothing_is_pulled_before_it_is_locked(autojump_clock: MockClock) -> None:
    async with scripted.world(queues=2) as w:
        locks = Locks(w.broker)
        locks.foreign = {scripted.queue(1)}
        w.broker.store(3, queue_id=1)
        got = Recorder()
        async with orderly(w, got) as consumer:
            await trio.sleep(10)
            assert consumer.assignment == (scripted.queue(0),)
            assert {pull.queue_id for pull in w.broker.pulls if pull.topic == "Orders"} == {0}
            freed = trio.current_time()
            locks.foreign = set()
            await got.wait_count(3)
            assert trio.current_time() - freed <= 1.1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"garbage",
        b"{}",
        b'{"lockOKMQSet":null}',
        b'{"lockOKMQSet":7}',
        b'{"lockOKMQSet":[7]}',
        b'{"lockOKMQSet":[{"topic":"Other","brokerName":"broker-b","queueId":7}]}',
    ],
)
async def test_a_damaged_answer_is_no_lock_and_the_broker_is_asked_again(
    autojump_clock: MockClock, body: bytes
) -> None:
    async with scripted.world() as w:
        w.broker.on(RequestCode.LOCK_BATCH_MQ, lambda _, request: request.answer(body=body))
        w.broker.store(3)
        got = Recorder()
        async with orderly(w, got) as consumer:
            await trio.sleep(40)
            assert got.messages == []
            assert consumer.assignment == ()
            Locks(w.broker)
            await got.wait_count(3)
            assert [message.queue_offset for message in got.messages] == [0, 1, 2]


async def test_it_closes_in_order_commit_unlock_leave(autojump_clock: MockClock) -> None:
    async with scripted.world() as w:
        Locks(w.broker)
        w.broker.store(5)
        got = Recorder()
        async with orderly(w, got):
            await got.wait_count(5)
            asked = len(w.broker.requests)
        last = {
            RequestCode.UPDATE_CONSUMER_OFFSET: "commit",
            RequestCode.UNLOCK_BATCH_MQ: "unlock",
            RequestCode.UNREGISTER_CLIENT: "leave",
        }
        assert [last[each.code] for each in w.broker.requests[asked:] if each.code in last] == [
            "commit",
            "commit",
            "unlock",
            "leave",
        ]
        assert w.broker.offsets["Orders", 0] == 5


@pytest.mark.parametrize("cut_off", ["before the broker answers", "before the offsets are known"])
async def test_what_a_rebalance_has_locked_is_unlocked_when_closing_cuts_it_off(
    autojump_clock: MockClock, cut_off: str
) -> None:
    async with scripted.world(queues=2) as w:
        locks = Locks(w.broker)
        async with w.consumer(orderly=True) as consumer:
            await trio.sleep(1)
            if cut_off == "before the broker answers":
                locks.silent = True
            else:
                w.broker.on(RequestCode.QUERY_CONSUMER_OFFSET, lambda connection, request: None)
            consumer.subscribe("Orders", Recorder())
            await wait_until(lambda: bool(locks.times()))
            await trio.sleep(0.1)
            assert consumer.assignment == ()
        assert {scripted.queue(0), scripted.queue(1)} <= set(locks.unlocked)


async def test_a_queue_in_which_a_listener_is_at_work_stays_locked_at_the_end(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted.world(queues=2) as w:
        locks = Locks(w.broker)
        w.broker.store(1)
        entered, stubborn = trio.Event(), trio.Event()

        async def listener(message: MessageExt) -> None:
            entered.set()
            with trio.CancelScope(shield=True):
                await stubborn.wait()

        async with trio.open_nursery() as nursery:
            async with orderly(w, listener, await_termination=1.0, close_timeout=1.0):
                await entered.wait()
                nursery.start_soon(_set_later, stubborn, 30.0)
    assert scripted.queue(0) not in locks.unlocked
    assert scripted.queue(1) in locks.unlocked  # the other one is free at once


async def _set_later(event: trio.Event, seconds: float) -> None:
    await trio.sleep(seconds)
    event.set()


# --- a lock that counts no more --------------------------------------------------------------------------------


async def test_a_lock_that_is_not_confirmed_counts_for_30_seconds_and_then_nothing_is_done(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted.world() as w:
        locks, got = Locks(w.broker), Recorder()
        async with orderly(w, got, broker_suspend_max_time=2.0) as consumer:
            await trio.sleep(10)
            locks.silent = True
            await trio.sleep(15)
            w.broker.store(2)
            await got.wait_count(2)
            await trio.sleep(10)
            assert consumer.status().locks[scripted.queue()].expires_in == 0
            commits, pulls = len(w.broker.commits), len(w.broker.times())
            w.broker.store(3)
            await trio.sleep(15)
            assert len(got.messages) == 2
            assert len(w.broker.times()) == pulls
            assert consumer.status().queues[scripted.queue()].paused == "the broker has to confirm its lock first"
            assert [each for each in w.broker.commits[commits:] if each.topic == "Orders"] == []
            assert caplog.text.count("does not confirm the locks of billing on") == 1
            locks.silent = False
            await got.wait_count(5)
            assert [message.queue_offset for message in got.messages] == [0, 1, 2, 3, 4]
            assert "has confirmed the locks of billing again" in caplog.text


async def test_who_has_got_further_meanwhile_is_not_repeated(autojump_clock: MockClock) -> None:
    async with scripted.world() as w:
        locks, got = Locks(w.broker), Recorder()
        w.broker.store(2)
        async with orderly(w, got, broker_suspend_max_time=2.0):
            await got.wait_count(2)
            locks.silent = True
            await trio.sleep(60)
            w.broker.store(8)
            w.broker.offsets["Orders", 0] = 7  # another member had the queue
            locks.silent = False
            await got.wait_count(5)
    assert [message.queue_offset for message in got.messages] == [0, 1, 7, 8, 9]


async def test_a_lock_that_is_lost_in_the_middle_of_a_listener_voids_what_it_says(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted.world() as w:
        locks = Locks(w.broker)
        w.broker.store(3)
        got: list[int] = []

        async def listener(message: MessageExt) -> None:
            got.append(message.queue_offset)
            await trio.sleep(30)

        async with orderly(w, listener) as consumer:
            await trio.sleep(15)
            locks.foreign = {scripted.queue()}
            await trio.sleep(10)
            assert "the lock on Orders@broker-a:0 is lost" in caplog.text
            assert consumer.assignment == ()
            await trio.sleep(10)  # by now it has returned
            assert w.broker.offsets.get(("Orders", 0), 0) == 0
            assert got == [0]
            status = consumer.status().locks[scripted.queue()]
            assert not status.held
            assert status.refused_for is not None
            assert 0 < status.refused_for < 16
            w.broker.offsets["Orders", 0] = 2  # the other member
            locks.foreign = set()
            await trio.sleep(5)
            assert got == [0, 2]


async def test_a_queue_that_is_lost_and_had_again_has_one_listener_at_a_time(autojump_clock: MockClock) -> None:
    async with scripted.world() as w:
        locks = Locks(w.broker)
        w.broker.store(3)
        inside = most = 0

        async def listener(message: MessageExt) -> None:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            await trio.sleep(100)
            inside -= 1

        async with orderly(w, listener, await_termination=0.0) as consumer:
            await trio.sleep(19)
            locks.foreign = {scripted.queue()}
            await trio.sleep(2)
            locks.foreign = set()
            await trio.sleep(30)
            assert "is still running on Orders@broker-a:0" in str(consumer.status().errors["Orders"])
            await trio.sleep(60)
            assert inside == 1
        assert most == 1


async def test_the_end_of_a_connection_puts_locks_in_doubt_until_the_broker_confirms(
    autojump_clock: MockClock,
) -> None:
    async with world(queues=1) as w:
        got = Recorder()
        await w.send(400)

        async def listener(message: MessageExt) -> None:
            got(message)
            await trio.sleep(0.5)

        async with orderly(w, listener) as consumer:
            await got.wait_count(20)
            await w.cluster.stop_broker(0)
            await trio.sleep(2)
            count = len(got.messages)
            assert count <= 21
            (queue,) = consumer.assignment
            assert consumer.status().locks[queue].expires_in == 0
            await trio.sleep(10)
            assert len(got.messages) == count
            await w.cluster.start_broker(0)
            await got.wait_count(count + 20)
            line = [message.queue_offset for message in got.messages]
            assert line == list(range(len(line)))


@pytest.mark.parametrize("killed", [False, True])
async def test_OR2_a_restarted_broker_gives_no_queue_away_whose_listener_still_runs(
    autojump_clock: MockClock, killed: bool
) -> None:
    inside: dict[int, int] = {}
    most = 0

    async def listener(message: MessageExt) -> None:
        nonlocal most
        inside[message.queue_id] = inside.get(message.queue_id, 0) + 1
        most = max(most, inside[message.queue_id])
        await trio.sleep(27)
        inside[message.queue_id] -= 1

    async with world(queues=4) as w:
        cable = Cable(w.cluster.network)
        async with orderly(w, listener), orderly(w, listener, network=cable):
            await w.send(20)
            await trio.sleep(40)
            await (w.cluster.kill_broker(0) if killed else w.cluster.stop_broker(0))
            cable.cut()
            await w.cluster.start_broker(0)
            await trio.sleep(2)  # the other member has reconnected, and the broker knows no other one
            cable.mend()
            await trio.sleep(60)
    assert most == 1


async def test_queues_of_a_member_that_ended_with_its_broker_are_taken_a_little_later(
    autojump_clock: MockClock,
) -> None:
    async with world(queues=2) as w:
        cable, got = Cable(w.cluster.network), Recorder()
        async with orderly(w, got) as consumer:
            async with orderly(w, Recorder(), network=cable, close_timeout=0.5) as other:
                await wait_until(lambda: len(consumer.assignment) == len(other.assignment) == 1)
                await trio.sleep(5)
                cable.cut()
            await w.cluster.restart_broker(0)
            await wait_until(lambda: "may have forgotten its locks" in str(consumer.status().errors.get("Orders")))
            told = trio.current_time()
            await wait_until(lambda: len(consumer.assignment) == 2)
            assert 3 <= trio.current_time() - told <= 7  # five seconds, and it tries again every second


# --- complaint 15 ------------------------------------------------------------------------------------------------


async def test_complaint_15_after_a_kill_the_next_one_says_who_has_the_queues_and_until_when(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(queues=2) as w:
        cable, got, later = Cable(w.cluster.network), Recorder(), Recorder()
        await w.send(4)
        async with orderly(w, got, network=cable, close_timeout=0.5):
            await got.wait_count(4)
            await trio.sleep(6)
            cable.cut()  # as if it were killed: nothing that it says at its end reaches the broker
        killed = trio.current_time()
        for number in range(4):
            await w.producer.send(Message("Orders", b"later %d" % number))
        async with orderly(w, later) as consumer:
            assert consumer.assignment == ()
            await trio.sleep(8)
            locks = consumer.status().locks
            assert sorted(queue.queue_id for queue in locks if queue.topic == "Orders") == [0, 1]
            for lock in locks.values():
                assert not lock.held
                assert lock.free_in == pytest.approx(60 - (trio.current_time() - killed), abs=1)
            assert "locked by another member of billing" in caplog.text
            assert "if that member is gone, the broker frees them within" in caplog.text
            await later.wait_count(4)
            assert trio.current_time() - killed <= 62
            await wait_until(lambda: all(lock.held for lock in consumer.status().locks.values()))
        assert all(message.body.startswith(b"later") for message in later.messages)


# --- what was on its way ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hears", [False, True], ids=["all silent", "the broker is heard"])
async def test_a_commit_that_was_stuck_never_reaches_the_broker_when_the_queue_is_another_member_s(
    autojump_clock: MockClock, hears: bool
) -> None:
    async with world(queues=1) as w:
        cable, got, later = Cable(w.cluster.network), Recorder(), Recorder()
        [broker] = w.cluster.brokers

        def committed() -> int:
            return broker.offsets.query("billing", "Orders", 0)

        async def say_something(connection: Connection) -> None:
            while connection.is_open:
                await trio.sleep(1)
                with suppress(ConnectionLostError):
                    connection.send_oneway(RemotingCommand.oneway(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {}))

        await w.send(5)
        async with trio.open_nursery() as nursery, orderly(w, got, network=cable, close_timeout=0.5):
            await got.wait_count(5)
            await wait_until(lambda: committed() == 5)
            [member] = broker.clients.consumers.clients("billing")
            cable.silence("server" if hears else "both")
            if hears:
                assert isinstance(member.channel, Connection)
                nursery.start_soon(say_something, member.channel)
            await trio.sleep(12)  # in which it commits two times
            await w.send(5, start=5)
            # That one it must not share with a member that the broker still counts in.
            mine = {"allocate_strategy": lambda request: request.queues}
            async with orderly(w, later, persist_consumer_offset_interval=5.0, **mine):
                await later.wait_count(5)
                await wait_until(lambda: committed() == 10)
                cable.mend()
                for _ in range(200):
                    await trio.sleep(0.01)
                    assert committed() == 10
                nursery.cancel_scope.cancel()
        assert [message.queue_offset for message in later.messages] == [5, 6, 7, 8, 9]


async def test_how_long_locks_count_can_be_set(autojump_clock: MockClock) -> None:
    async with scripted.world(queues=1) as w:
        locks = Locks(w.broker)
        began = trio.current_time()
        async with orderly(w, Recorder(), lock_interval=5.0, lock_max_live_time=8.0) as consumer:
            await trio.sleep(11)
            assert [at - began for at in locks.times()] == pytest.approx([0, 5, 10])
            locks.silent = True
            await trio.sleep(5)
            assert consumer.status().locks[scripted.queue()].held
            await trio.sleep(3)
            assert consumer.status().locks[scripted.queue()].expires_in == 0


def test_a_lock_must_be_renewed_before_it_runs_out() -> None:
    with pytest.raises(ConfigError, match="expires before it is renewed"):
        PushConsumerConfig(group="g", lock_interval=30.0)
