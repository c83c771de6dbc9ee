"""The places of users' code from which a public call may be made, in code on asyncio or trio.

A place is an async function of a world and an act; it has the act done where its name says.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial

import trio

from rocketpy import RocketMQError
from rocketpy.portal import portal
from tests.matrix.places import MOST_SENDS, Dying, finalisers, hole, message, signalled
from tests.matrix.worlds import in_thread, unique

__all__ = ["ASYNCIO", "TRIO"]


async def carefully(awaitable):
    """What it ends with is free, as long as it is an answer: the act may close what it needs."""
    with suppress(RocketMQError):
        await awaitable


# --- users' code that we call --------------------------------------------------------------------------


async def task_done_callback(world, act):
    task = world.loop.create_task(world.producer.send(message()))
    task.add_done_callback(act.plain)
    await task


async def another_task(world, act):
    world.spawn(act.awaited())


async def plain_listener(world, act):
    world.heard = act.plain
    await _until_asked(world, act, "Heard")


async def plain_listener_with_the_loop(world, act):
    world.heard = lambda: world.in_loop(act.awaited)
    await _until_asked(world, act, "Heard")


async def before_consume(world, act):
    world.before = act.plain
    await _until_asked(world, act, "Heard")


async def on_revoked(world, act):
    world.revoked = act.plain
    until = time.monotonic() + 5
    while not act.was_asked and time.monotonic() < until:
        with suppress(RocketMQError):  # once it is unsubscribed
            world.consumer.unsubscribe("Awaited")
        await world.sleep(0.05)


async def async_listener(world, act):
    world.awaited = act.awaited
    await _until_asked(world, act, "Awaited")


async def _until_asked(world, act, topic):
    until = time.monotonic() + 5
    while not act.was_asked and time.monotonic() < until:
        await carefully(world.producer.send(message_to(topic)))
        await world.sleep(0.05)


def message_to(topic):
    made = message()
    made.topic = topic
    return made


async def hook_before(world, act):
    world.hook.before = act.plain
    await carefully(world.producer.send(message()))


async def hook_after(world, act):
    world.hook.after = act.plain
    await carefully(world.producer.send(message()))


async def selector(world, act):
    def choose(queues, message, argument):
        act.plain()
        return queues[0]

    await carefully(world.producer.send(message(), selector=choose))


async def on_failure(world, act):
    bad = message()
    bad.body = b""
    await carefully(world.producer.send_many([bad, message()], on_failure=lambda error: act.plain()))


async def iterable(world, act):
    def messages():
        yield message()
        act.plain()
        yield message()

    await carefully(world.producer.send_many(messages(), batch_size=1))


async def async_iterable(world, act):
    async def messages():
        yield message()
        await act.awaited()
        yield message()

    await carefully(world.producer.send_many(messages(), batch_size=1))


# --- threads and loops ---------------------------------------------------------------------------------


async def other_thread(world, act):
    await world.to_thread(partial(in_thread, act.plain))


async def thread_of_the_loop(world, act):
    await world.to_thread(act.plain)


async def thread_with_the_loop(world, act):
    await world.to_thread(partial(world.in_loop, act.awaited))


async def executor(world, act):
    def submitted():
        with ThreadPoolExecutor(1) as pool:
            pool.submit(act.plain).result(10)

    await world.to_thread(submitted)


async def loop_of_asyncio(world, act):
    await world.to_thread(lambda: asyncio.run(act.awaited()))


async def loop_of_trio(world, act):
    await world.to_thread(lambda: trio.run(act.awaited))


async def thread_of_the_portal(world, act):
    portal().post(act.plain)


# --- finalisers ----------------------------------------------------------------------------------------


async def del_collected(world, act):
    Dying(act.plain)
    gc.collect()


async def del_in_our_code(world, act):
    with finalisers(act):
        for sent in range(MOST_SENDS):
            if sent >= 10 and act.was_asked:
                break
            await carefully(world.producer.send(message()))


# --- signals -------------------------------------------------------------------------------------------


async def signal_in_send(world, act):
    world.cluster.delay_sends(0.4)
    with signalled(act.plain):
        await carefully(world.producer.send(message()))


async def handler_of_the_loop(world, act):
    world.cluster.delay_sends(0.4)
    with signalled(act.plain):
        world.loop.add_signal_handler(signal.SIGUSR1, act.plain)
        await carefully(world.producer.send(message()))
        world.loop.remove_signal_handler(signal.SIGUSR1)


async def signal_in_start(world, act):
    with hole() as namesrv:
        with signalled(act.plain):
            await carefully(_start_slowly(world, namesrv))


async def _start_slowly(world, namesrv):
    """Enter a consumer that nobody answers, which takes half a second, and leave it."""
    made = world.module.PushConsumer(unique("slow"), namesrv=namesrv, request_timeout=0.5)
    made.subscribe("Heard", lambda message: None)
    made.subscribe("Spare", lambda message: None)
    world.consumer = made
    async with made:
        pass


@asynccontextmanager
async def _closing_slowly(world):
    """A producer that takes half a second to close, in the place of that of the world, and is about to close."""
    closing = world.new("Producer")
    async with closing:
        await closing.send(message())
        world.cluster.delay_sends(0.5)
        world.spawn(carefully(closing.send(message())))
        await world.sleep(0.05)
        ours, world.producer = world.producer, closing
        yield
    world.producer = ours


async def signal_in_close(world, act):
    async with _closing_slowly(world):
        signalling = signalled(act.plain)
        signalling.__enter__()
    signalling.__exit__(None, None, None)


# --- while something starts or closes ------------------------------------------------------------------


async def during_start(world, act):
    with hole() as namesrv:
        world.spawn(_soon(world, act))
        await carefully(_start_slowly(world, namesrv))


async def during_close(world, act):
    async with _closing_slowly(world):
        world.spawn(_soon(world, act))


async def _soon(world, act):
    await world.sleep(0.1)
    await act.awaited()


async def thread_during_close(world, act):
    def late():
        time.sleep(0.1)
        act.plain()

    async with _closing_slowly(world):
        world.spawn(world.to_thread(late))


_BOTH = {
    "another task": another_task,
    "a plain listener": plain_listener,
    "a plain listener, in the loop": plain_listener_with_the_loop,
    "an async listener": async_listener,
    "before_consume": before_consume,
    "on_revoked": on_revoked,
    "a hook, before": hook_before,
    "a hook, after": hook_after,
    "a selector": selector,
    "on_failure": on_failure,
    "an iterable": iterable,
    "an async iterable": async_iterable,
    "another thread": other_thread,
    "a thread of the loop": thread_of_the_loop,
    "a thread, in the loop": thread_with_the_loop,
    "an executor": executor,
    "a loop of asyncio": loop_of_asyncio,
    "a loop of trio": loop_of_trio,
    "the portal": thread_of_the_portal,
    "__del__": del_collected,
    "__del__, in our code": del_in_our_code,
    "a signal in send": signal_in_send,
    "a signal in start": signal_in_start,
    "a signal in close": signal_in_close,
    "a start under way": during_start,
    "a close under way": during_close,
    "a thread, while it closes": thread_during_close,
}
ASYNCIO = _BOTH | {"a done-callback": task_done_callback, "a handler of the loop": handler_of_the_loop}
TRIO = _BOTH
