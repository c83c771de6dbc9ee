"""Warnings about queues that two members of a group have: assigned to both, or also shared out to the other."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer.lite import assigned_twice
from rocketpy.message import MessageQueue
from rocketpy.results import MessageModel
from rocketpy.wire.bodies.running import ConsumerRunningInfo, ProcessQueueInfo
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.group import GetConsumerRunningInfoRequestHeader
from tests.consumer import brokers as scripted
from tests.system.consuming import Recorder, queues_of, world


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    return [text for text in said if "consume the same queues" in text]


async def test_a_queue_that_is_assigned_to_two_members_is_told_to_both_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as w:
        one, two = w.lite(), w.lite()
        one.assign(queues_of(3))
        two.assign(queues_of(4)[2:])
        async with one, two:
            await trio.sleep(100)
        ids = [consumer.client.client_id for consumer in (one, two)]
        said = warnings(caplog)
        assert len(said) == 2
        for text, (mine, other) in zip(
            sorted(said, key=lambda text: text.index(ids[0])), (ids, ids[::-1]), strict=True
        ):
            assert f"this one ({mine}), to which they are assigned, and {other} have" in text
            assert str(queues_of(3)[2]) in text
            assert not any(str(queue) in text for queue in (*queues_of(2), queues_of(4)[3]))
            assert "Assign each queue to one member only" in text


@pytest.mark.slow
async def test_members_with_queues_of_their_own_are_not_warned(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as w, AsyncExitStack() as stack:
        for number in range(4):
            consumer = w.lite()
            consumer.assign([queues_of(4)[number]] * 2)  # a queue that one member names twice is one queue
            await stack.enter_async_context(consumer)
        await trio.sleep(100)
    assert warnings(caplog) == []


async def test_members_that_read_everything_for_themselves_are_not_warned(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async with world() as w:
        one, two = w.lite(), w.lite(message_model=MessageModel.BROADCASTING, local_offset_store_dir=tmp_path)
        for consumer in (one, two):
            consumer.assign(queues_of(4))
        async with one, two:
            await trio.sleep(100)
    assert warnings(caplog) == []


async def test_a_queue_that_the_group_has_shared_out_as_well_is_told(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(queues=2) as w:
        member, push = w.lite(), w.consumer()
        member.assign(queues_of(2))
        push.subscribe("Orders", Recorder())
        async with member, push:
            await trio.sleep(100)
            assert set(push.assignment) & set(queues_of(2))
            [text] = warnings(caplog)
            assert push.client.client_id in text


class Members:
    """Has a scripted broker know other members, which have all queues."""

    def __init__(self, broker: scripted.PullBroker, ids: Iterable[str], queues: Iterable[MessageQueue]) -> None:
        broker.members = list(ids)
        self.asked: list[tuple[float, str]] = []
        self.refusal: int | None = None
        self.have_them_for = 1000
        """How many answers say so."""
        self._info = ConsumerRunningInfo(mq_table={queue: ProcessQueueInfo() for queue in queues})
        broker.on(RequestCode.GET_CONSUMER_RUNNING_INFO, self.tell)

    def tell(self, _: object, request: RemotingCommand) -> RemotingCommand:
        header = GetConsumerRunningInfoRequestHeader.from_ext(request.ext_fields)
        self.asked.append((trio.current_time(), header.client_id))
        if self.refusal is not None:
            return request.answer(self.refusal, "as told")
        info = self._info if len(self.asked) <= self.have_them_for else ConsumerRunningInfo()
        return request.answer(body=info.encode())


@pytest.mark.parametrize("looks", [1, 2])
async def test_a_queue_that_changes_hands_is_not_told(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, looks: int
) -> None:
    async with scripted.world() as w:
        members = Members(w.broker, ["another"], [scripted.queue()])
        members.have_them_for = looks
        consumer = w.lite()
        consumer.assign([scripted.queue()])
        async with consumer:
            await trio.sleep(100)
    assert len(members.asked) > 3
    assert len(warnings(caplog)) == looks - 1


async def test_a_large_group_is_asked_in_parts(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    async with scripted.world() as w:
        members = Members(w.broker, [f"member-{number:02}" for number in range(20)], [])
        consumer = w.lite()
        consumer.assign([scripted.queue()])
        async with consumer:
            await trio.sleep(3 * assigned_twice.LOOK_EVERY)
        times = sorted({at for at, _ in members.asked})
        looks = [[name for at, name in members.asked if at == time] for time in times]
        assert [len(look) for look in looks] == [assigned_twice.MOST_ASKED] * 3
        assert {name for look in looks for name in look} == set(w.broker.members or ())
    assert warnings(caplog) == []


@pytest.mark.parametrize(
    ("refusal", "asks"),
    [(ResponseCode.NO_PERMISSION, 1), (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 1), (ResponseCode.SYSTEM_ERROR, 4)],
)
async def test_members_that_are_not_asked_for_us_or_do_not_answer_are_not_suspected(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, refusal: int, asks: int
) -> None:
    async with scripted.world() as w:
        members = Members(w.broker, ["another"], [scripted.queue()])
        members.refusal = refusal
        consumer = w.lite()
        consumer.assign([scripted.queue()])
        async with consumer:
            await trio.sleep(3 * assigned_twice.LOOK_EVERY + 5)
            assert len(members.asked) == asks
            assert warnings(caplog) == []


async def test_a_member_that_has_more_of_our_queues_later_is_told_again(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(queues=3) as w:
        one, two = w.lite(), w.lite(group="other")
        one.assign(queues_of(3))
        three = w.lite()
        three.assign(queues_of(1))
        async with one, two, three:
            await trio.sleep(100)
            assert len(warnings(caplog)) == 2
            three.assign(queues_of(2))
            await trio.sleep(100)
            assert len(warnings(caplog)) == 4
