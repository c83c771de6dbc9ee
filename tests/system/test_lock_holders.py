"""Who has the locks that an orderly consumer waits for: members are asked, seldom and beside the rebalancing."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer.locks import lock_holders
from rocketpy.consumer.push import PushConsumer
from rocketpy.message import MessageExt
from rocketpy.remoting.connection import Connection
from rocketpy.wire.bodies.running import ConsumerRunningInfo, ProcessQueueInfo
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.group import GetConsumerRunningInfoRequestHeader
from tests.consumer import brokers as scripted
from tests.system.consuming import Recorder, wait_until, world
from tests.system.test_orderly_locks import Locks, orderly


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    return [text for text in said if "locked by another member" in text]


async def test_locks_of_a_topic_that_was_given_up_are_not_waited_for(autojump_clock: MockClock) -> None:
    async with scripted.world(queues=2, topics=("Orders", "Bills")) as w:
        Locks(w.broker).foreign = {scripted.queue(0), scripted.queue(1)}
        consumer = orderly(w, Recorder())
        consumer.subscribe("Bills", Recorder())
        async with consumer:
            topics = {queue.topic for queue in consumer.status().locks}
            assert topics == {"Orders", "Bills", "%RETRY%billing"}
            consumer.unsubscribe("Orders")
            await trio.sleep(5)
            assert {queue.topic for queue in consumer.status().locks} == {"Bills", "%RETRY%billing"}


@pytest.mark.slow
async def test_complaint_15_who_holds_a_queue_is_in_the_status_and_in_the_warning(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    release = trio.Event()

    async def stuck(message: MessageExt) -> None:
        await release.wait()

    async with world(queues=2) as w:
        await w.send(2)
        async with orderly(w, stuck) as one, orderly(w, Recorder()) as other:
            began = trio.current_time()
            await wait_until(lambda: warnings(caplog))
            assert 5 < trio.current_time() - began < 8
            [text] = warnings(caplog)
            assert f"locked by another member of billing ({one.client.client_id}) for" in text
            locks = {queue: lock for queue, lock in other.status().locks.items() if queue.topic == "Orders"}
            [(moving, lock)] = locks.items()
            assert (lock.held, lock.holder) == (False, one.client.client_id)
            assert one.status().locks[moving].holder == one.client.client_id
            await trio.sleep(2)
            assert one.client.client_id in str(other.status().errors["Orders"])
            await trio.sleep(60)
            assert other.status().locks[moving].holder == one.client.client_id
            assert len(warnings(caplog)) == 1
            release.set()
            await wait_until(lambda: other.status().locks[moving].held)
            assert other.status().locks[moving].holder == other.client.client_id


class Members:
    """Has a scripted broker lock its only queue for somebody else, and know other members, which say what they have."""

    def __init__(self, broker: scripted.PullBroker, ids: Iterable[str]) -> None:
        self.ids = list(ids)
        self.locks = Locks(broker)
        self.locks.foreign = {scripted.queue()}
        self.asked: list[tuple[float, str]] = []
        self.claims: dict[str, int] = {}
        """By client id, when the lock was confirmed to it, in ms; not to others."""
        self.refusal: int | None = None
        self.silent = False
        self._broker = broker
        broker.on(RequestCode.GET_CONSUMER_LIST_BY_GROUP, self.list_members)
        broker.on(RequestCode.GET_CONSUMER_RUNNING_INFO, self.tell)

    def list_members(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        known = {beat.client_id for beat in self._broker.heartbeats}
        self._broker.members = [*self.ids, *known]
        return self._broker.list_members(connection, request)

    def tell(self, _: object, request: RemotingCommand) -> RemotingCommand | None:
        member = GetConsumerRunningInfoRequestHeader.from_ext(request.ext_fields).client_id
        self.asked.append((trio.current_time(), member))
        if self.silent:
            return None
        if self.refusal is not None:
            return request.answer(self.refusal, "as told")
        state = ProcessQueueInfo(locked=member in self.claims, last_lock_timestamp=self.claims.get(member, 0))
        return request.answer(body=ConsumerRunningInfo(mq_table={scripted.queue(): state}).encode())

    def rounds(self) -> Sequence[float]:
        """When they were asked."""
        return sorted({at for at, _ in self.asked})


def waiting(w: scripted.World) -> PushConsumer:
    """A consumer to which all queues are shared out."""
    return orderly(w, Recorder(), allocate_strategy=lambda request: request.queues)


def holder(consumer: PushConsumer) -> str | None:
    return consumer.status().locks[scripted.queue()].holder


async def test_members_are_asked_every_20_seconds_and_what_they_say_last_counts(autojump_clock: MockClock) -> None:
    async with scripted.world() as w:
        cut_off = [f"was-cut-off-{number}" for number in range(5)]  # and they do not know yet that they lost it
        members = Members(w.broker, ["two", "three", *cut_off])
        members.claims = {"two": 2_000, **dict.fromkeys(cut_off, 1_000)}
        async with waiting(w) as consumer:
            assert holder(consumer) is None
            began = trio.current_time()
            await trio.sleep(5)
            assert members.asked == []
            await trio.sleep(2)
            assert holder(consumer) == "two"
            members.claims = {"three": 3_000}
            await trio.sleep(20)
            assert holder(consumer) == "three"
            members.ids = ["two"]  # three was killed: nobody has said that it gave the lock back
            await trio.sleep(20)
            assert holder(consumer) == "three"
            members.ids, members.claims = ["two", "three"], {}
            await trio.sleep(20)
            assert holder(consumer) is None
            rounds = [at - began for at in members.rounds()]
            assert len(rounds) == 4
            assert all(later - sooner >= 20 for sooner, later in itertools.pairwise(rounds))
            members.locks.foreign.clear()
            await trio.sleep(40)
            assert holder(consumer) == consumer.client.client_id
            assert len(members.rounds()) == 4, "asked for a lock that it has"


async def test_members_that_do_not_answer_delay_no_rebalance(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted.world() as w:
        members = Members(w.broker, [f"member-{number:02}" for number in range(20)])
        members.silent = True
        async with waiting(w) as consumer:
            await trio.sleep(12)
            assert len(members.asked) == lock_holders.AT_ONCE
            assert holder(consumer) is None
            times = members.locks.times()
            assert max(later - sooner for sooner, later in itertools.pairwise(times)) < 1.1
            assert len(warnings(caplog)) == 1, "the warning comes without a name"


async def test_a_large_group_is_asked_in_parts_until_the_holder_is_found(autojump_clock: MockClock) -> None:
    async with scripted.world() as w:
        members = Members(w.broker, names := [f"member-{number:02}" for number in range(50)])
        members.claims = {"member-33": 1}
        async with waiting(w) as consumer:
            await trio.sleep(8)
            assert sorted(name for _, name in members.asked) == names[: lock_holders.MOST_ASKED]
            await trio.sleep(20)
            assert holder(consumer) == "member-33"
            assert len(members.asked) == lock_holders.MOST_ASKED + lock_holders.AT_ONCE
            await trio.sleep(20)
            assert [name for _, name in members.asked[40:]] == ["member-33"], "who had it is asked first"


@pytest.mark.parametrize(
    ("refusal", "rounds"),
    [(ResponseCode.NO_PERMISSION, 1), (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 1), (ResponseCode.SYSTEM_ERROR, 2)],
)
async def test_brokers_that_refuse_the_question_are_not_asked_again(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, refusal: int, rounds: int
) -> None:
    async with scripted.world() as w:
        members = Members(w.broker, ["one"])
        members.refusal = refusal
        async with waiting(w) as consumer:
            await trio.sleep(30)
            assert holder(consumer) is None
            assert len(members.rounds()) == rounds
            assert len(warnings(caplog)) == 1
