"""Hostile requests of brokers to consumers: no consumer skips a message, loses a queue or stops because of them."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.callbacks import LONGEST
from rocketpy.consumer import LitePullConsumer
from rocketpy.consumer.offsets.queue_offsets import QueueOffsets
from rocketpy.consumer.push import PushConsumer
from rocketpy.consumer.rebalancing.rebalance import A_SECOND, AT_ONCE
from rocketpy.consumer.requests import directly as consumed_directly
from rocketpy.consumer.requests.directly import MOST_CALLS
from rocketpy.errors import RequestTimeoutError
from rocketpy.message import MessageExt, MessageQueue
from rocketpy.remoting.connection import Connection
from rocketpy.results import ConsumeFromWhere, MessageModel
from rocketpy.wire.bodies.offsets import ResetOffsetBody
from rocketpy.wire.bodies.running import ConsumeMessageDirectlyResult
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.compression import CompressionType, compression_flag
from rocketpy.wire.enums import CMResult
from rocketpy.wire.headers.offset import ResetOffsetRequestHeader
from rocketpy.wire.limits import DEFAULT_LIMITS
from rocketpy_broker_sim.broker.broker import Broker
from tests.hostile.messages import message
from tests.system.consuming import World, queues_of, wait_until, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
KINDS = ("concurrent", "orderly", "broadcast", "lite")
ONE_QUICKLY = [KINDS[0], *(pytest.param(kind, marks=pytest.mark.matrix) for kind in KINDS[1:])]
"""For slower tests of what hardly differs between kinds."""
SENT = 20
QUEUES = 4
EACH = SENT // QUEUES


@attrs.define
class Scene:
    """A cluster, and a consumer of some kind that has got what was sent."""

    world: World
    consumer: PushConsumer | LitePullConsumer
    bodies: list[bytes]

    @property
    def broker(self) -> Broker:
        return self.world.cluster.brokers[0]

    def link(self, number: int = 0) -> Connection:
        """A broker's connection to the consumer."""
        [member] = self.world.cluster.brokers[number].clients.consumers.clients("billing")
        assert isinstance(member.channel, Connection)
        return member.channel

    def reset(self, offsets: dict[MessageQueue, int], *, by: int = 0) -> None:
        header = ResetOffsetRequestHeader(group="billing", topic="Orders", timestamp=0, is_force=True).to_ext()
        body = ResetOffsetBody(offset_table=offsets).encode()
        command = RemotingCommand.oneway(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, body)
        self.link(by).send_oneway(command)

    async def committed(self) -> list[int | None]:
        """The committed offsets, or those in the file of a broadcasting consumer."""
        if isinstance(self.consumer, LitePullConsumer):
            return [await self.consumer.committed(queue) for queue in queues_of(QUEUES)]
        running = self.consumer._running
        assert running is not None
        return [await running._offsets.committed(queue) for queue in queues_of(QUEUES)]

    async def gets_all(self, count: int = 8) -> None:
        """Send messages, and wait until the consumer has got all of them."""
        before = set(self.bodies)
        sent = set(await self.world.send(count, start=1000 + len(before)))
        await wait_until(lambda: sent <= set(self.bodies), within=60)


def consumer_of(w: World, kind: str, folder: Path, bodies: list[bytes]) -> PushConsumer | LitePullConsumer:
    """A consumer of some kind that is not started, and whose listener collects bodies."""
    if kind == "lite":
        lite = w.lite()
        lite.subscribe("Orders")
        return lite
    settings: dict[str, Any] = {"orderly": kind == "orderly"}
    if kind == "broadcast":
        settings = {"message_model": MessageModel.BROADCASTING, "local_offset_store_dir": folder}
    consumer = w.consumer(consume_from_where=FIRST, **settings)
    consumer.subscribe("Orders", lambda each: bodies.append(each.body))
    return consumer


@asynccontextmanager
async def running(consumer: PushConsumer | LitePullConsumer, bodies: list[bytes]) -> AsyncIterator[None]:
    """Run a consumer, and poll it if it has no listener."""
    async with consumer, trio.open_nursery() as nursery:

        async def poll(lite: LitePullConsumer) -> None:
            while True:
                bodies.extend(each.body for each in await lite.poll())

        if isinstance(consumer, LitePullConsumer):
            nursery.start_soon(poll, consumer)
        yield
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def consuming(kind: str, folder: Path, *, brokers: int = 1) -> AsyncIterator[Scene]:
    """A consumer of some kind that has got and committed what was sent."""
    async with world(brokers, use_server_side_reset_offset=False) as w:
        await w.send(SENT)
        bodies: list[bytes] = []
        consumer = consumer_of(w, kind, folder, bodies)
        async with running(consumer, bodies):
            await wait_until(lambda: len(bodies) == SENT)
            await trio.sleep(12)
            yield Scene(w, consumer, bodies)


@pytest.mark.parametrize(("kind", "offset"), [(KINDS[0], EACH + 1), *((kind, 2**63 - 1) for kind in KINDS)])
async def test_OF4_threat_M16_an_offset_beyond_the_end_makes_nobody_skip_what_comes(
    autojump_clock: MockClock, kind: str, offset: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Java's consumer commits it, and the group then continues at the end that the queue has at its next pull."""
    async with consuming(kind, tmp_path) as s:
        s.reset(dict.fromkeys(queues_of(QUEUES), offset))
        await trio.sleep(20)
        assert await s.committed() == [EACH] * QUEUES
        assert "ignoring a reset of 4 queues" in caplog.text
        assert len(s.consumer.assignment) == QUEUES
        await s.gets_all()
        assert len(s.bodies) == SENT + 8


@pytest.mark.parametrize("kind", KINDS)
async def test_OF4_the_end_and_what_is_before_it_are_taken(
    autojump_clock: MockClock, kind: str, tmp_path: Path
) -> None:
    async with consuming(kind, tmp_path) as s:
        s.reset(dict(zip(queues_of(QUEUES), (0, EACH - 1, EACH, EACH + 1), strict=True)))
        await wait_until(lambda: len(s.bodies) == SENT + EACH + 1)
        await s.gets_all()
        await trio.sleep(12)
        assert len(s.bodies) == SENT + EACH + 1 + 8
        assert await s.committed() == [EACH + 2] * QUEUES


@pytest.mark.parametrize("kind", KINDS)
async def test_threat_M16_a_broker_resets_its_own_queues_only(
    autojump_clock: MockClock, kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with consuming(kind, tmp_path, brokers=2) as s:
        mine, theirs = (MessageQueue("Orders", name, 0) for name in ("broker-a", "broker-b"))
        before = len(s.bodies)
        s.reset({mine: 0, theirs: 0}, by=1)
        await wait_until(lambda: len(s.bodies) > before)
        await trio.sleep(20)
        again = s.world.cluster.brokers[1].store.reads.max_offset("Orders", 0)
        assert len(s.bodies) == before + again
        assert "ignoring 1 of 2 offsets in a reset" in caplog.text


@pytest.mark.parametrize("kind", ONE_QUICKLY)
async def test_OF4_an_end_that_nobody_tells_leaves_everything_as_it_is(
    autojump_clock: MockClock, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(self: QueueOffsets, queue: MessageQueue) -> int:
        raise RequestTimeoutError("no answer")

    monkeypatch.setattr(QueueOffsets, "end", silent)
    async with consuming(kind, tmp_path) as s:
        s.reset(dict.fromkeys(queues_of(QUEUES), 0))
        await trio.sleep(20)
        assert await s.committed() == [EACH] * QUEUES
        await s.gets_all()
        assert len(s.bodies) == SENT + 8


@pytest.mark.slow
@pytest.mark.parametrize("kind", ONE_QUICKLY)
async def test_OF4_of_a_flood_of_resets_the_last_one_counts_and_soon(
    autojump_clock: MockClock, kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One after the other they would take a second each."""
    async with consuming(kind, tmp_path) as s:
        for number in range(500):
            s.reset(dict.fromkeys(queues_of(QUEUES), number % EACH))
            if number % 50 == 0:
                await trio.sleep(0.01)
        s.reset(dict.fromkeys(queues_of(QUEUES), EACH - 2))
        await trio.sleep(5)
        assert len(s.consumer.assignment) == QUEUES
        assert sorted(s.bodies[-2 * QUEUES :]) == sorted(b"%d" % number for number in range(SENT - 2 * QUEUES, SENT))
        assert "too many are in progress" not in caplog.text
        await s.gets_all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ONE_QUICKLY)
async def test_OF4_resets_while_a_consumer_starts_or_closes_lose_nothing(
    autojump_clock: MockClock, kind: str, tmp_path: Path
) -> None:
    async with world(use_server_side_reset_offset=False) as w, trio.open_nursery() as nursery:
        bodies: list[bytes] = []
        scene = Scene(w, consumer_of(w, kind, tmp_path, bodies), bodies)

        async def hurry() -> None:
            """Request impossible and possible resets, as soon as the broker knows the consumer."""
            while True:
                for offset in (2**62, 0, 2**31):
                    if scene.broker.clients.consumers.clients("billing"):
                        scene.reset(dict.fromkeys(queues_of(QUEUES), offset))
                    await trio.sleep(0.02)

        nursery.start_soon(hurry)
        for number, seconds in enumerate((0.0, 0.3, 0.9, 1.1, 2.5)):
            sent = await w.send(8, start=100 * number)
            async with running(consumer_of(w, kind, tmp_path, bodies), bodies):
                await trio.sleep(seconds)
        nursery.cancel_scope.cancel()
        assert sent
        async with running(consumer_of(w, kind, tmp_path, bodies), bodies):
            await scene.gets_all()
        everything = {b"%d" % (100 * number + each) for number in range(5) for each in range(8)}
        assert everything <= set(bodies)


# --- notices ---------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_threat_M16_notices_without_an_end_do_not_keep_brokers_busy(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with consuming("concurrent", tmp_path) as s:
        notice = RemotingCommand.oneway(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "billing"})
        assert isinstance(s.consumer, PushConsumer)
        before = s.consumer.statistics().rebalances
        s.link().send_oneway(notice)
        await trio.sleep(0.005)
        assert s.consumer.statistics().rebalances == before + 1, "the first notice has an effect at once"
        for _ in range(1000):
            s.link().send_oneway(notice)
            await trio.sleep(0.01)
        assert s.consumer.statistics().rebalances <= before + AT_ONCE + 11 * A_SECOND
        await trio.sleep(2)
        after = s.consumer.statistics().rebalances
        s.link().send_oneway(notice)
        await trio.sleep(0.005)
        assert s.consumer.statistics().rebalances == after + 1, "and so has one that follows a quiet time"


# --- one message directly ----------------------------------------------------------------------------------


def directly(body: bytes, *, group: str = "billing") -> RemotingCommand:
    fields = {"consumerGroup": group, "clientId": "c", "brokerName": "broker-a"}
    return RemotingCommand(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields, body)


LIMIT = DEFAULT_LIMITS.max_inflated
ZLIB = compression_flag(CompressionType.ZLIB)
DAMAGED = {
    "a bomb": message(zlib.compress(bytes(LIMIT + 1)), topic="Orders", sys_flag=ZLIB),
    "not compressed": message(b"plain", topic="Orders", sys_flag=ZLIB),
    "cut off": message(zlib.compress(bytes(10_000))[:-5], topic="Orders", sys_flag=ZLIB),
    "compressed in an unknown way": message(b"plain", topic="Orders", sys_flag=ZLIB | 0x700),
    "of a wrong length": message(topic="Orders") + b"x",
}


@pytest.mark.parametrize("name", DAMAGED)
async def test_threat_M16_no_listener_gets_what_cannot_be_read(
    autojump_clock: MockClock, name: str, tmp_path: Path
) -> None:
    async with consuming("concurrent", tmp_path) as s:
        answer = await s.link().request(directly(DAMAGED[name]), timeout=100)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark is not None
        assert "the message" in answer.remark
        assert len(s.bodies) == SENT
        good = message(zlib.compress(b"whole"), topic="Orders", sys_flag=ZLIB)
        told = ConsumeMessageDirectlyResult.decode((await s.link().request(directly(good), timeout=100)).body)
        assert told.consume_result is CMResult.CR_SUCCESS
        assert s.bodies[SENT:] == [b"whole"]


@asynccontextmanager
async def hanging(listener: Callable[[MessageExt], Awaitable[None]]) -> AsyncIterator[Connection]:
    """A broker's connection to a consumer whose listener may hang."""
    async with world() as w:
        consumer = w.consumer(consume_from_where=FIRST, await_termination=0.0, consume_thread_max=1)
        consumer.subscribe("Orders", listener)
        async with consumer:
            [member] = w.cluster.brokers[0].clients.consumers.clients("billing")
            assert isinstance(member.channel, Connection)
            yield member.channel


async def test_threat_M16_direct_calls_of_a_listener_that_hangs_are_few_and_not_made_later(
    autojump_clock: MockClock,
) -> None:
    gate, seen = trio.Event(), []

    async def hang(each: MessageExt) -> None:
        seen.append(each.body)
        await gate.wait()

    async with hanging(hang) as link, trio.open_nursery() as nursery:
        codes: list[int] = []

        async def ask(body: bytes) -> None:
            codes.append((await link.request(directly(message(body, topic="Orders")), timeout=200)).code)

        for _ in range(2):
            for _ in range(MOST_CALLS):
                nursery.start_soon(ask, b"early")
            await trio.sleep(LONGEST + 1)
        # The broker no longer waits for the first calls, but they are still running, so the others did not start.
        assert (codes.count(ResponseCode.SYSTEM_ERROR), codes.count(ResponseCode.SYSTEM_BUSY)) == (64, 64)
        gate.set()
        await trio.sleep(1)
        assert seen == [b"early"], "the call had been answered already"
        await ask(b"late")
        assert (seen, codes[-1]) == ([b"early", b"late"], ResponseCode.SUCCESS)


async def test_threat_M16_what_is_unpacked_for_direct_calls_is_bounded(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumed_directly, "MOST_BYTES", 2_000)
    gate = trio.Event()

    async def hang(each: MessageExt) -> None:
        await gate.wait()

    packed = message(zlib.compress(bytes(1_000)), topic="Orders", sys_flag=ZLIB)
    async with hanging(hang) as link, trio.open_nursery() as nursery:
        codes: list[int] = []

        async def ask() -> None:
            codes.append((await link.request(directly(packed), timeout=100)).code)

        for _ in range(4):
            nursery.start_soon(ask)
        await trio.sleep(1)
        assert codes == [ResponseCode.SYSTEM_BUSY] * 2
        gate.set()
        await trio.sleep(1)
        assert codes.count(ResponseCode.SUCCESS) == 2
