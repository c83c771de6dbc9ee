"""The way back from the portal: what has gathered while the loop was busy costs it one wake-up."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from rocketpy.aio.bridge import Inbox
from tests.aio.running import in_asyncio

MANY = 500


def counted(inbox: Inbox) -> list[int]:
    """Notes how often the loop is woken."""
    wake_ups: list[int] = []
    drain = inbox._drain

    def drained() -> None:
        wake_ups.append(1)
        drain()

    inbox._drain = drained
    return wake_ups


@in_asyncio
async def test_completions_that_gather_wake_the_loop_once_and_keep_their_order():
    got = []
    inbox = Inbox(asyncio.get_running_loop(), lambda: None)
    wake_ups = counted(inbox)
    for turn in (1, 2):
        begin = len(got)
        deliver = lambda: [inbox.deliver(partial(got.append, number)) for number in range(MANY)]  # noqa: E731
        thread = threading.Thread(target=deliver)
        thread.start()
        thread.join()  # the loop is busy meanwhile
        assert len(got) == begin
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert got[begin:] == list(range(MANY))
        assert len(wake_ups) == turn


@in_asyncio
async def test_completions_behind_one_that_is_interrupted_are_called_all_the_same():
    got = []
    inbox = Inbox(asyncio.get_running_loop(), lambda: None)

    def interrupt():
        raise KeyboardInterrupt

    for job in (partial(got.append, 1), interrupt, partial(got.append, 2)):
        inbox._jobs.append(job)
    with pytest.raises(KeyboardInterrupt):
        inbox._drain()
    assert got == [1]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert got == [1, 2]


def test_a_closed_loop_is_told_once():
    told = []
    loop = asyncio.new_event_loop()
    inbox = Inbox(loop, lambda: told.append(1))
    loop.close()
    assert [inbox.deliver(lambda: None) for _ in range(3)] == [False] * 3
    assert told == [1]
