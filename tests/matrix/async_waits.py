"""The places on trio and asyncio where something waits: a signal strikes there, or another task or thread comes."""

from __future__ import annotations

import signal
import threading
from contextlib import asynccontextmanager, suppress

from rocketpy import RocketMQError
from tests.matrix.strikes import Beside, Hole, handler, releasing, soon_after, striking
from tests.matrix.waits import message, slow_starter
from tests.matrix.worlds import nothing

__all__ = ["WAITS", "carefully", "handler_of_the_loop"]


async def carefully(awaitable):
    """What it ends with is free, as long as it is an answer: the act may close what it needs."""
    with suppress(RocketMQError):
        await awaitable


@asynccontextmanager
async def struck(world, act, when, let_go):
    """The signal strikes in a block when a function returns, and what the block waits for comes after the act."""
    with handler(act.plain):
        async with Beside(striking(when), releasing(act, let_go), world=world):
            yield


async def signal_in_send(world, act):
    world.cluster.hold_sends()
    async with struck(world, act, world.cluster.wait_held, world.cluster.let_go):
        await carefully(world.producer.send(message()))


async def handler_of_the_loop(world, act):
    world.cluster.hold_sends()
    async with struck(world, act, world.cluster.wait_held, world.cluster.let_go):
        world.loop.add_signal_handler(signal.SIGUSR1, act.plain)
        await carefully(world.producer.send(message()))
        world.loop.remove_signal_handler(signal.SIGUSR1)


async def signal_in_start(world, act):
    with Hole() as hole:
        async with struck(world, act, hole.wait_guest, hole.close):
            await carefully(_started(world, hole.address))


async def _started(world, namesrv):
    """Enter a consumer that nobody answers, and leave it."""
    world.consumer = slow_starter(world, namesrv)
    async with world.consumer:
        pass


async def _close_slowly(world, act, *steps):
    """Close a producer, whose closing waits for a send, in the place of that of the world.

    Args:
        world: of the loop.
        act: is to happen meanwhile.
        steps: what a thread does when the closing begins.
    """
    closing, began = world.new("Producer"), threading.Event()
    ours = world.producer
    async with (
        Beside(releasing(act, world.cluster.let_go), world=world),
        Beside(lambda: soon_after(began), *steps, world=world),
        closing,
    ):
        await closing.send(message())
        world.cluster.hold_sends()
        world.spawn(carefully(closing.send(message())))
        await world.to_thread(world.cluster.wait_held)
        world.producer = closing
        began.set()
    world.producer = ours


async def signal_in_close(world, act):
    with handler(act.plain):
        await _close_slowly(world, act, striking(nothing))


async def during_start(world, act):
    with Hole() as hole:
        steps = hole.wait_guest, lambda: world.spawn(act.awaited()), releasing(act, hole.close)
        async with Beside(*steps, world=world):
            await carefully(_started(world, hole.address))


async def during_close(world, act):
    await _close_slowly(world, act, lambda: world.spawn(act.awaited()))


async def thread_during_close(world, act):
    await _close_slowly(world, act, act.plain)


WAITS = {
    "a signal in send": signal_in_send,
    "a signal in start": signal_in_start,
    "a signal in close": signal_in_close,
    "a start under way": during_start,
    "a close under way": during_close,
    "a thread, while it closes": thread_during_close,
}
