"""A bug in what keeps order is heard by everybody who waits, and the next member gets all of it; in virtual time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer.calling.consume_orderly import ConsumeMessageOrderlyService
from rocketpy.consumer.calling.send_back import SendBack
from rocketpy.consumer.locks.queue_locks import QueueLocks
from rocketpy.consumer.rebalancing.orderly_assignment import OrderlyAssignment
from rocketpy.errors import ServiceCrashedError
from rocketpy.message import MessageExt
from rocketpy.results import ConsumeFromWhere
from tests.system.consuming import Recorder, World, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
BUGS = [
    (ConsumeMessageOrderlyService, "collect"),
    (ConsumeMessageOrderlyService, "_decide"),
    (ConsumeMessageOrderlyService, "_go_on"),
    (SendBack, "dead_letter"),
    (QueueLocks, "_renew"),
    (QueueLocks, "_given"),
    (OrderlyAssignment, "lock_counts"),
]
WITHIN = 60.0
"""Seconds, the time between two renewals of locks among them."""


def bug(*_: object, **__: object) -> Any:
    raise ZeroDivisionError("a bug")


def fails(message: MessageExt) -> None:
    raise ValueError("each time")


def orderly(w: World, listener: Any, **settings: Any) -> Any:
    consumer = w.consumer(orderly=True, consume_from_where=FIRST, suspend_current_queue_time=0.01, **settings)
    consumer.subscribe("Orders", listener)
    return consumer


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), BUGS, ids=lambda each: getattr(each, "__name__", each))
async def test_everybody_who_waits_hears_of_a_crash_and_the_next_member_has_the_queues(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, kind: type, name: str
) -> None:
    async with world(queues=2) as w, trio.open_nursery() as outside:
        heard: list[str] = []

        async def hear(who: str, wait: Any) -> None:
            with pytest.raises(ServiceCrashedError, match="a bug"):
                await wait()
            heard.append(who)

        async def live() -> None:
            async with orderly(w, fails, max_reconsume_times=1 if kind is SendBack else -1) as consumer:
                outside.start_soon(hear, "run_forever", consumer.run_forever)
                await trio.testing.wait_all_tasks_blocked()
                with monkeypatch.context() as patched:
                    patched.setattr(kind, name, bug)
                    sent.extend(await w.send(6))
                    await trio.sleep(WITHIN)

        sent: list[bytes] = []
        with pytest.raises(ServiceCrashedError, match="a bug"):
            await live()
        await trio.testing.wait_all_tasks_blocked()
        assert heard == ["run_forever"]
        got = Recorder()
        async with orderly(w, got):
            await got.wait_count(len(sent), within=WITHIN)
        for queue_id in range(2):
            offsets = [message.queue_offset for message in got.messages if message.queue_id == queue_id]
            assert offsets == sorted(set(offsets))
