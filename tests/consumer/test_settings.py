"""Settings of push consumers that are read deep inside: each changes what it says."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from rocketpy.results import ConsumeFromWhere
from rocketpy.wire.codes import ResponseCode
from tests.consumer.brokers import world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


@pytest.mark.parametrize("delay", [0.5, 8.0])
async def test_pull_time_delay_when_exception(autojump_clock: MockClock, delay: float) -> None:
    async with world() as w:
        w.broker.script = [ResponseCode.SYSTEM_ERROR]
        consumer = w.consumer(consume_from_where=FIRST, pull_time_delay_when_exception=delay)
        consumer.subscribe("Orders", lambda message: None)
        async with consumer:
            await trio.sleep(10)
            first, second = w.broker.times()[:2]
            assert second - first == pytest.approx(delay, abs=0.1)


async def test_consumer_timeout_when_suspend(autojump_clock: MockClock) -> None:
    async with world() as w:
        limits = {"broker_suspend_max_time": 1.0, "consumer_timeout_when_suspend": 4.0}
        consumer = w.consumer(consume_from_where=FIRST, pull_time_delay_when_exception=1.0, **limits)
        consumer.subscribe("Orders", lambda message: None)
        async with consumer:
            await trio.sleep(30)
            gaps = [after - before for before, after in pairwise(w.broker.times())]
            assert len(gaps) >= 4
            assert gaps == pytest.approx([5.0] * len(gaps), abs=0.5)
