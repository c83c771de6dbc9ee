"""Whatever a function of the user's raises is its own failure: the consumer goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer.rebalancing.allocate import allocate
from rocketpy.consumer.rebalancing.strategies import AllocateRequest
from rocketpy.errors import ConfigError, ServiceCrashedError
from rocketpy.message import MessageExt, MessageQueue
from rocketpy.results import ConsumeFromWhere
from tests.consumer.brokers import queue, world
from tests.consumer.helpers import role_of
from tests.system.consuming import Recorder, wait_until

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


class OwnError(BaseException):
    """What a program may derive, so that nothing catches it on its way."""


ERRORS = [
    pytest.param(lambda: GeneratorExit("no"), id="GeneratorExit"),
    pytest.param(lambda: SystemExit("no"), id="SystemExit"),
    pytest.param(lambda: OwnError("no"), id="OwnError"),
    pytest.param(lambda: BaseExceptionGroup("no", [GeneratorExit(), ValueError()]), id="group"),
]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_threat_L7_hooks_of_queues(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, error: Any, kind: str
) -> None:
    async with world(queues=2) as w:
        got, called = Recorder(), []

        def plain(queues: Sequence[MessageQueue]) -> None:
            called.append(tuple(queues))
            raise error()

        async def waiting(queues: Sequence[MessageQueue]) -> None:
            await trio.lowlevel.checkpoint()
            plain(queues)

        hook = plain if kind == "plain" else waiting
        w.broker.store(3)
        consumer = w.consumer(consume_from_where=FIRST, on_assigned=hook, on_revoked=hook)
        consumer.subscribe("Orders", got)
        async with consumer:
            await got.wait_count(3)
            w.broker.members = [consumer.client.client_id, "zzz"]
            role_of(consumer).rebalance_now()
            await wait_until(lambda: len(called) == 2)
            assert consumer.status().state == "open"
    assert called == [(queue(0), queue(1)), (queue(1),), (queue(0),)]
    assert {"on_assigned failed for 2 queues", "on_revoked failed for 1 queue"} <= {
        each.message.partition(":")[0] for each in caplog.records
    }


@pytest.mark.parametrize("error", ERRORS)
async def test_threat_L7_offset_stores(autojump_clock: MockClock, error: Any) -> None:
    class Shelf:
        fails = True

        async def read(self, queue: MessageQueue) -> int | None:
            return None

        async def write(self, offsets: Mapping[MessageQueue, int]) -> None:
            if self.fails:
                raise error()
            written.update(offsets)

    written: dict[MessageQueue, int] = {}
    async with world() as w:
        got, shelf = Recorder(), Shelf()
        w.broker.store(3)
        consumer = w.consumer(consume_from_where=FIRST, offset_store=shelf, persist_consumer_offset_interval=1.0)
        consumer.subscribe("Orders", got)
        async with consumer:
            await got.wait_count(3)
            await trio.sleep(3)
            assert consumer.status().state == "open"
            shelf.fails = False
            await wait_until(lambda: written)
    assert written[queue()] == 3


@pytest.mark.parametrize("error", ERRORS)
def test_threat_L7_strategies(error: Any) -> None:
    def share_out(request: AllocateRequest) -> list[MessageQueue]:
        raise error()

    with pytest.raises(ConfigError, match="this member keeps its queues") as caught:
        allocate(share_out, [queue()], ["a"], "a", topic="Orders")
    assert type(caught.value.__cause__) is type(error())


def test_ctrl_c_in_a_strategy_comes_out() -> None:
    def share_out(request: AllocateRequest) -> list[MessageQueue]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        allocate(share_out, [queue()], ["a"], "a", topic="Orders")


async def test_a_listener_that_fails_while_it_is_cut_off_does_not_make_the_close_fail(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def tidies_up_badly() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("the database is away")

    async def listener(message: MessageExt) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tidies_up_badly)
            await trio.sleep_forever()

    async with world() as w:
        w.broker.store(1)
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", listener)
        async with consumer:
            await trio.sleep(1)
        assert w.broker.offsets.get(("Orders", 0), 0) == 0
    assert "failed while it was cancelled" in caplog.text
    assert ServiceCrashedError.__name__ not in caplog.text
