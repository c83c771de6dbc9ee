"""What brokers ask of a client is done beside the reader, and never holds up answers of the same connection."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

import attrs
import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.api import group as group_api
from rocketpy.client.callbacks import LONGEST, MOST_AT_A_TIME, MOST_BYTES
from rocketpy.client.instance import MQClientInstance
from rocketpy.errors import BrokerError
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.rounds import SLICE_SECONDS
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from tests.client.fakes import FakeBroker, FakeConsumer, FakeNameServer, FakeProducer, route_to

INFO = RequestCode.GET_BROKER_RUNTIME_INFO
"""Nobody asks a client for that: it has no processor of its own for it."""


@attrs.define
class Link:
    """A client, its broker, and the broker's end of their connection."""

    client: MQClientInstance
    broker: FakeBroker

    @property
    def to_client(self) -> Connection:
        return self.broker.clients[0]

    async def ask(self, code: int = INFO, *, timeout: float = 100) -> RemotingCommand:
        return await self.to_client.request(RemotingCommand(code), timeout=timeout)

    async def heartbeat(self) -> float:
        """Seconds that an answer of the broker takes."""
        began = trio.current_time()
        data = self.client.roles.heartbeat(self.client.client_id)
        assert data is not None
        await group_api.heartbeat(self.client.pool, self.broker.address, data, timeout=3)
        return trio.current_time() - began


@asynccontextmanager
async def linked() -> AsyncIterator[Link]:
    network = MemoryNetwork()
    async with FakeNameServer().open(network) as names, FakeBroker("broker-a").open(network) as broker:
        assert isinstance(names, FakeNameServer)
        assert isinstance(broker, FakeBroker)
        names.routes = {"A": route_to(broker)}
        async with MQClientInstance(namesrv=names.address, network=network) as client:
            client.register_producer("p", FakeProducer())
            await client.routes.ensure("A")
            await trio.sleep(0.1)
            yield Link(client, broker)


async def test_a_slow_processor_holds_up_no_answer_of_its_connection(autojump_clock: MockClock) -> None:
    async with linked() as link, trio.open_nursery() as nursery:
        answers: list[bytes | None] = []

        async def slow(connection: Connection, request: RemotingCommand) -> RemotingCommand:
            await trio.sleep(20)
            return request.answer(body=b"at last")

        async def ask() -> None:
            answers.append((await link.ask()).body)

        link.client.callbacks.async_processors[INFO] = slow
        for _ in range(10):
            nursery.start_soon(ask)
        await trio.sleep(1)
        assert await link.heartbeat() < 0.1
        assert answers == []
        # They run side by side.
        await trio.sleep(20)
        assert answers == [b"at last"] * 10


@pytest.mark.slow
async def test_more_than_run_at_a_time_are_refused_and_the_reader_goes_on(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with linked() as link, trio.open_nursery() as nursery:
        codes: list[int] = []

        async def hang(connection: Connection, request: RemotingCommand) -> RemotingCommand:
            await trio.sleep_forever()
            return request.answer()

        async def ask() -> None:
            codes.append((await link.ask()).code)

        link.client.callbacks.async_processors[INFO] = hang
        for _ in range(3000):
            nursery.start_soon(ask)
        await trio.sleep(1)
        assert codes == [ResponseCode.SYSTEM_BUSY] * (3000 - MOST_AT_A_TIME)
        assert await link.heartbeat() < 0.1
        assert len([each for each in caplog.records if "too many" in each.getMessage()]) == 1
        await trio.sleep(LONGEST)
        assert codes[3000 - MOST_AT_A_TIME :] == [ResponseCode.SYSTEM_ERROR] * MOST_AT_A_TIME
        # There is room again.
        link.client.callbacks.async_processors[INFO] = quick
        assert (await link.ask()).code == ResponseCode.SUCCESS


async def test_what_they_work_on_is_bounded_in_bytes_too(autojump_clock: MockClock) -> None:
    async with linked() as link, trio.open_nursery() as nursery:
        codes: list[int] = []
        gate = trio.Event()

        async def wait(connection: Connection, request: RemotingCommand) -> RemotingCommand:
            await gate.wait()
            return request.answer()

        async def ask(size: int) -> None:
            request = RemotingCommand(INFO, body=bytes(size))
            codes.append((await link.to_client.request(request, timeout=100)).code)

        link.client.callbacks.async_processors[INFO] = wait
        for _ in range(4):
            nursery.start_soon(ask, MOST_BYTES // 3)
        await trio.sleep(1)
        assert codes == [ResponseCode.SYSTEM_BUSY]
        gate.set()
        await trio.sleep(1)
        assert codes[1:] == [ResponseCode.SUCCESS] * 3
        # A single request is accepted, however large it is, and finished ones no longer count.
        await ask(MOST_BYTES * 2 // 5)
        assert codes[-1] == ResponseCode.SUCCESS


async def test_plain_processors_that_take_long_share_the_loop(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("rocketpy.remoting.rounds.clock_here", lambda: lambda: now)
    async with linked() as link:
        done = 0

        def heavy(connection: Connection, request: RemotingCommand) -> None:
            nonlocal now, done
            now += SLICE_SECONDS
            done += 1

        link.client.callbacks.processors[INFO] = heavy
        for _ in range(40):
            link.to_client.send_oneway(RemotingCommand.oneway(INFO))
        most = 0
        while done < 40:
            before = done
            await trio.lowlevel.checkpoint()
            most = max(most, done - before)
        assert most <= 2  # from two turns, which may run before or after this task


async def test_when_the_client_is_closed_nothing_is_begun(autojump_clock: MockClock) -> None:
    async with linked() as link:
        link.client.callbacks.async_processors[INFO] = quick
        callbacks = link.client.callbacks
    answer = callbacks.process(link.to_client, RemotingCommand(INFO))
    assert answer is not None
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "the client is not open: try again once it has started",
    )


async def quick(connection: Connection, request: RemotingCommand) -> RemotingCommand:
    await trio.lowlevel.checkpoint()
    return request.answer()


@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), SystemExit(3), KeyError("x")])
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_one_that_raises_is_answered_with_an_error_and_told_once_a_second(
    autojump_clock: MockClock, error: BaseException, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with linked() as link:

        def plain(connection: Connection, request: RemotingCommand) -> NoReturn:
            raise error

        async def waiting(connection: Connection, request: RemotingCommand) -> NoReturn:
            await trio.lowlevel.checkpoint()
            raise error

        if kind == "plain":
            link.client.callbacks.processors[INFO] = plain
        else:
            link.client.callbacks.async_processors[INFO] = waiting
        for _ in range(20):
            answer = await link.ask()
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "a bug" not in (answer.remark or "")
        lines = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert len(lines) == 1
        assert "a request 28 of " in lines[0].getMessage()
        assert lines[0].exc_text
        assert await link.heartbeat() < 0.1
        assert link.client.is_open


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_an_error_with_a_code_is_the_answer(autojump_clock: MockClock, kind: str) -> None:
    async with linked() as link:
        error = BrokerError.for_code(ResponseCode.NO_PERMISSION, "not this one")

        def plain(connection: Connection, request: RemotingCommand) -> NoReturn:
            raise error

        async def waiting(connection: Connection, request: RemotingCommand) -> NoReturn:
            await trio.lowlevel.checkpoint()
            raise error

        if kind == "plain":
            link.client.callbacks.processors[INFO] = plain
        else:
            link.client.callbacks.async_processors[INFO] = waiting
        answer = await link.ask()
        assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, "not this one")


async def test_a_role_that_fails_when_told_of_members_hurts_nobody(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with linked() as link:

        class Broken(FakeConsumer):
            def rebalance_now(self) -> None:
                raise ZeroDivisionError("a bug")

        link.client.register_consumer("c", Broken("c", "A"))
        notice = RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "c"})
        for _ in range(5):
            link.to_client.send_oneway(notice)
        await trio.sleep(0.1)
        assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 1
        assert await link.heartbeat() < 0.1


async def test_what_is_under_way_when_the_client_closes_is_cancelled(autojump_clock: MockClock) -> None:
    ended: list[str] = []

    async def slow(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("cancelled")
        return request.answer()

    began = trio.current_time()
    async with linked() as link:
        link.client.callbacks.async_processors[INFO] = slow
        link.to_client.send_oneway(RemotingCommand(INFO))
        await trio.sleep(0.1)
    assert ended == ["cancelled"]
    assert trio.current_time() - began < 10
