"""Pulls that differ in offsets alone: what is asked and answered is the same as of whole pulls, one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from rocketpy.client.api.pull import PullForm, pull_message
from rocketpy.errors import BrokerError, FilterRefusedError, RemoteProtocolError, RequestTimeoutError
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.results import PullStatus
from rocketpy.wire.codes import RequestCode, ResponseCode, SerializeType
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.pull import PullMessageRequestHeader
from tests.client.fakes import FakeServer
from tests.consumer.helpers import record

FIELDS = {"suggestWhichBrokerId": "0", "nextBeginOffset": "6", "minOffset": "1", "maxOffset": "9"}
HEADER = PullMessageRequestHeader(
    consumer_group="billing",
    topic="Orders",
    queue_id=3,
    queue_offset=0,
    max_msg_nums=32,
    sys_flag=2,
    commit_offset=0,
    suspend_timeout_millis=15_000,
    sub_version=1,
    bname="broker-a",
)
Answer = Callable[[RemotingCommand], RemotingCommand | None]


class Broker(FakeServer):
    """Answers pulls as it is told, the last way again and again."""

    def __init__(self, *answers: Answer) -> None:
        codes = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
        super().__init__(dict.fromkeys(codes, self.pull))
        self.answers = list(answers)
        self.asked: list[RemotingCommand] = []

    def pull(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        self.asked.append(request)
        return (self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])(request)


def found(request: RemotingCommand) -> RemotingCommand:
    return request.answer(0, "FOUND", FIELDS, record(5))


@asynccontextmanager
async def world(
    *answers: Answer, kind: SerializeType = SerializeType.JSON
) -> AsyncIterator[tuple[Broker, ConnectionPool]]:
    network, broker = MemoryNetwork(), Broker(*answers)
    async with broker.open(network), ConnectionPool(network, serialize_type=kind).open() as pool:
        yield broker, pool


@pytest.mark.parametrize("lite", [False, True])
@pytest.mark.parametrize("kind", SerializeType)
async def test_every_pull_asks_and_says_the_same_as_a_whole_one(kind: SerializeType, *, lite: bool) -> None:
    async with world(found, kind=kind) as (broker, pool):
        form = PullForm(HEADER, broker_name="broker-a", lite=lite)
        results = [await form.ask(pool, broker.address, 5, 3, 4, timeout=3) for _ in range(3)]
        whole = PullMessageRequestHeader.from_ext({**HEADER.to_ext(), "queueOffset": "5", "sysFlag": "3"})
        whole.commit_offset = 4
        results.append(await pull_message(pool, broker.address, whole, broker_name="broker-a", timeout=3, lite=lite))
        assert [each.ext_fields for each in broker.asked] == [broker.asked[-1].ext_fields] * 4
        assert {each.code for each in broker.asked} == {
            RequestCode.LITE_PULL_MESSAGE if lite else RequestCode.PULL_MESSAGE
        }
        for result in results:
            assert result.status is PullStatus.FOUND
            assert (result.next_begin_offset, result.min_offset, result.max_offset) == (6, 1, 9)
            (message,) = result.messages
            assert (message.queue_offset, message.broker_name) == (5, "broker-a")
            assert (message.system_properties["MIN_OFFSET"], message.system_properties["MAX_OFFSET"]) == ("1", "9")


@pytest.mark.parametrize("kind", ["SQL92", "TAG", None])
async def test_a_wrong_expression_is_told_with_its_place(kind: str | None) -> None:
    def wrong(request: RemotingCommand) -> RemotingCommand:
        return request.answer(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "at character 4: it ends too early")

    header = PullMessageRequestHeader.from_ext({**HEADER.to_ext(), "subscription": "a >", "expressionType": "SQL92"})
    header.expression_type = kind
    async with world(wrong) as (broker, pool):
        form = PullForm(header, broker_name="broker-a")
        errors = []
        for _ in range(2):  # the first in full, as there is no connection yet
            with pytest.raises(BrokerError) as caught:
                await form.ask(pool, broker.address, 5, 2, 0, timeout=3)
            errors.append(caught.value)
        with pytest.raises(BrokerError) as caught:
            await pull_message(pool, broker.address, header, broker_name="broker-a", timeout=3)
        for error in (*errors, caught.value):
            assert error.code == 23
            assert isinstance(error, FilterRefusedError) == (kind == "SQL92")
            if isinstance(error, FilterRefusedError):
                assert (error.topic, error.expression, error.position) == (header.topic, "a >", 4)


async def test_other_answers_are_read_in_full() -> None:
    def moved(request: RemotingCommand) -> RemotingCommand:
        return request.answer(ResponseCode.PULL_OFFSET_MOVED, "moved", FIELDS)

    def refused(request: RemotingCommand) -> RemotingCommand:
        return request.answer(ResponseCode.NO_PERMISSION, "not for you")

    def odd(request: RemotingCommand) -> RemotingCommand:
        return request.answer(0, "FOUND", {**FIELDS, "nextBeginOffset": "six"}, record(5))

    async with world(found, moved, refused, odd) as (broker, pool):
        form = PullForm(HEADER, broker_name="broker-a")
        await form.ask(pool, broker.address, 5, 2, 0, timeout=3)
        assert (await form.ask(pool, broker.address, 5, 2, 0, timeout=3)).status is PullStatus.OFFSET_ILLEGAL
        with pytest.raises(BrokerError, match="not for you"):
            await form.ask(pool, broker.address, 5, 2, 0, timeout=3)
        with pytest.raises(RemoteProtocolError, match="nextBeginOffset"):
            await form.ask(pool, broker.address, 5, 2, 0, timeout=3)


async def test_R7_a_pull_moves_to_a_fresh_connection(autojump_clock: trio.testing.MockClock) -> None:
    def leave(request: RemotingCommand) -> RemotingCommand:
        return request.answer(ResponseCode.GO_AWAY, "please go away")

    async with world(found, leave, found) as (broker, pool):
        form = PullForm(HEADER, broker_name="broker-a")
        await form.ask(pool, broker.address, 5, 2, 0, timeout=3)
        assert (await form.ask(pool, broker.address, 7, 2, 0, timeout=3)).status is PullStatus.FOUND
        assert [each.ext_fields["queueOffset"] for each in broker.asked] == ["5", "7", "7"]
        assert pool.statistics().dials == 2


async def test_a_pull_that_is_not_answered_says_so_in_time(autojump_clock: trio.testing.MockClock) -> None:
    async with world(found, lambda request: None) as (broker, pool):
        form = PullForm(HEADER, broker_name="broker-a")
        await form.ask(pool, broker.address, 5, 2, 0, timeout=3)
        began = trio.current_time()
        with pytest.raises(RequestTimeoutError, match=r"a pull of Orders, allowed 3 s"):
            await form.ask(pool, broker.address, 5, 2, 0, timeout=3)
        assert trio.current_time() - began == pytest.approx(3, abs=0.1)


async def test_hooks_see_a_pull_as_fields() -> None:
    seen: list[str] = []

    class Hook:
        def before_request(self, address: str, command: RemotingCommand) -> None:
            seen.append(command.ext_fields["queueOffset"])

        def after_answer(self, address: str, command: RemotingCommand, answer: RemotingCommand | None) -> None:
            seen.append("answered")

    network, broker = MemoryNetwork(), Broker(found)
    async with broker.open(network), ConnectionPool(network, hooks=[Hook()]).open() as pool:
        form = PullForm(HEADER, broker_name="broker-a")
        for offset in (5, 6):
            await form.ask(pool, broker.address, offset, 2, 0, timeout=3)
    assert seen == ["5", "answered", "6", "answered"]
