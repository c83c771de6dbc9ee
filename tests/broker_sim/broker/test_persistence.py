"""Changes reach the files: soon, together, again after a failure, and before the answer of an administrator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy_broker_sim.broker.persistence import Persistence
from rocketpy_broker_sim.broker.tables.offsets import ConsumerOffsetTable
from rocketpy_broker_sim.broker.tables.subscriptions import SubscriptionGroupTable
from rocketpy_broker_sim.broker.tables.topics import TopicTable
from rocketpy_broker_sim.config import BrokerConfig
from rocketpy_broker_sim.store.disk.memory import MemoryStorage

ADMIN_REQUEST = RemotingCommand(RequestCode.UPDATE_AND_CREATE_TOPIC, opaque=7)


class Answers:
    """A connection of which only the answers are looked at."""

    def __init__(self) -> None:
        self.sent: list[tuple[RemotingCommand, RemotingCommand]] = []

        self.frames: list[tuple[RemotingCommand, bytes]] = []

    def send_answer(self, request: RemotingCommand, answer: RemotingCommand) -> None:
        self.sent.append((request, answer))

    def send_answer_frame(self, request: RemotingCommand, frame: bytes) -> None:
        self.frames.append((request, frame))


class Setup:
    def __init__(self) -> None:
        self.storage = MemoryStorage()
        self.writes: list[str] = []
        self.storage.fault = self.note
        config = BrokerConfig()
        self.topics = TopicTable(config, self.storage)
        self.groups = SubscriptionGroupTable(config, self.storage)
        self.offsets = ConsumerOffsetTable(config, self.storage)
        self.persistence = Persistence([self.topics, self.groups, self.offsets])

    def note(self, operation: str, path: str, size: int) -> None:
        if operation == "write_bytes_atomic":
            self.writes.append(path.removeprefix("config/"))

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.persistence.serve_changes)
            nursery.start_soon(self.persistence.serve_periodically, 5)
            await wait_all_tasks_blocked()
            yield
            nursery.cancel_scope.cancel()

    def stored_topics(self) -> TopicTable:
        table = TopicTable(BrokerConfig(), self.storage)
        table.load()
        return table


@pytest.fixture
def setup() -> Setup:
    return Setup()


async def test_changes_that_come_together_are_written_once_and_at_once(setup: Setup, mock_clock: MockClock) -> None:
    async with setup.serving():
        for number in range(100):
            setup.topics.put(TopicConfig(topic_name=f"T{number}"))
        setup.groups.find("G")
        await wait_all_tasks_blocked()
        assert setup.writes == ["topics.json", "subscriptionGroup.json"]
        assert "T99" in setup.stored_topics()


async def test_offsets_are_written_every_so_often(setup: Setup, mock_clock: MockClock) -> None:
    async with setup.serving():
        setup.offsets.commit("G", "T", 0, 1)
        mock_clock.jump(4.9)
        await wait_all_tasks_blocked()
        assert setup.writes == []
        mock_clock.jump(0.2)
        await wait_all_tasks_blocked()
        assert setup.writes == ["consumerOffset.json"]
        mock_clock.jump(20)
        await wait_all_tasks_blocked()
        assert setup.writes == ["consumerOffset.json"]


async def test_an_answer_waits_for_the_file_of_its_change(setup: Setup, mock_clock: MockClock) -> None:
    connection = Answers()
    answer = ADMIN_REQUEST.answer()
    async with setup.serving():
        setup.topics.put(TopicConfig(topic_name="T"))
        assert setup.persistence.answer_after_save(connection, ADMIN_REQUEST, answer) is None  # type: ignore[arg-type]
        assert connection.sent == []
        await wait_all_tasks_blocked()
        assert connection.sent == [(ADMIN_REQUEST, answer)]
        assert "T" in setup.stored_topics()
        again = setup.persistence.answer_after_save(connection, ADMIN_REQUEST, answer)  # type: ignore[arg-type]
        assert again is answer, "nothing changed, so nothing has to be waited for"


async def test_a_request_whose_answer_waits_for_a_file_keeps_no_body(setup: Setup, mock_clock: MockClock) -> None:
    connection = Answers()
    request = RemotingCommand(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=b"x" * 1000, opaque=7)
    async with setup.serving():
        setup.topics.put(TopicConfig(topic_name="T"))
        setup.persistence.answer_after_save(connection, request, request.answer())  # type: ignore[arg-type]
        await wait_all_tasks_blocked()
    [(answered, _)] = connection.sent
    assert (answered.opaque, answered.body) == (7, b"")


async def test_a_full_disk_is_told_to_who_waits_and_tried_again(setup: Setup, autojump_clock: MockClock) -> None:
    connection = Answers()
    async with setup.serving():
        with setup.storage.failing("write_bytes_atomic"):
            setup.topics.put(TopicConfig(topic_name="T"))
            setup.persistence.answer_after_save(connection, ADMIN_REQUEST, ADMIN_REQUEST.answer())  # type: ignore[arg-type]
            await trio.sleep(1)
            ((_, answer),) = connection.sent
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "memory:" not in (answer.remark or ""), "paths are no business of the peer"
            assert setup.topics.changed
        await trio.sleep(5)
        assert not setup.topics.changed
        assert "T" in setup.stored_topics()


async def test_a_prebuilt_answer_waits_too_and_an_error_takes_its_place(
    setup: Setup, autojump_clock: MockClock
) -> None:
    connection = Answers()
    request = RemotingCommand(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, body=b"x" * 1000, opaque=7)
    async with setup.serving():
        setup.offsets.assign_resets("G", "T", {0: 1})
        setup.persistence.send_after_save(connection, request, b"frame")  # type: ignore[arg-type]
        assert connection.frames == []
        await wait_all_tasks_blocked()
        [(answered, frame)] = connection.frames
        assert (answered.opaque, answered.body, frame) == (7, b"", b"frame")
        with setup.storage.failing("write_bytes_atomic"):
            setup.offsets.assign_resets("G", "T", {0: 2})
            setup.persistence.send_after_save(connection, request, b"frame")  # type: ignore[arg-type]
            await trio.sleep(1)
        ((_, answer),) = connection.sent
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert len(connection.frames) == 1


async def test_LC1_the_last_round_tells_those_whose_round_was_cancelled(setup: Setup) -> None:
    connection = Answers()
    setup.topics.put(TopicConfig(topic_name="T"))
    setup.persistence.answer_after_save(connection, ADMIN_REQUEST, ADMIN_REQUEST.answer())  # type: ignore[arg-type]
    with trio.CancelScope() as scope:
        scope.cancel()
        await setup.persistence.save()
    assert connection.sent == []
    await setup.persistence.save()
    assert len(connection.sent) == 1
    assert "T" in setup.stored_topics()


async def test_a_change_after_a_periodic_round_is_written_at_once_too(setup: Setup, mock_clock: MockClock) -> None:
    async with setup.serving():
        for name in ("before", "between", "after"):
            mock_clock.jump(6)
            await wait_all_tasks_blocked()
            setup.topics.put(TopicConfig(topic_name=name))
            await wait_all_tasks_blocked()
            assert setup.stored_topics().get(name) is not None
