"""A broker that was killed starts again while the wall clock is behind what it has stored."""

from __future__ import annotations

import pytest
import trio

from rocketpy.message import Message
from rocketpy.seams import wall_ms
from rocketpy_broker_sim import LocalCluster
from rocketpy_broker_sim.broker.subsystems import filters
from rocketpy_broker_sim.store import clock


async def test_a_killed_broker_starts_while_the_clock_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    with trio.fail_after(60):
        async with LocalCluster() as cluster:
            await cluster.create_topic("Orders", queues=1)
            await cluster.send(Message("Orders", b"before"))
            await cluster.kill_broker(0)
            for module in (clock, filters):
                monkeypatch.setattr(module, "wall_ms", lambda: wall_ms() - 3_600_000)
            await cluster.start_broker(0)  # it recovers in a thread, as there is no mock clock
            await cluster.send(Message("Orders", b"after"))
            first, second = cluster.messages("Orders")
    assert (first.body, second.body) == (b"before", b"after")
    assert first.store_timestamp <= second.store_timestamp
