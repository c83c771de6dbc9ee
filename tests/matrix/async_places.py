"""The places of users' code from which a public call may be made, in code on asyncio or trio.

A place is an async function of a world and an act. It makes the act's call in the place that its name says.
"""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import trio

from rocketpy.portal import portal
from tests.matrix.async_waits import WAITS, carefully, handler_of_the_loop
from tests.matrix.places import MOST_SENDS, Dying, finalisers
from tests.matrix.spots import SPOTS, at_spot_of_loop, hear, until_asked_in_loop
from tests.matrix.waits import message
from tests.matrix.worlds import in_thread, unique

__all__ = ["ASYNCIO", "TRIO"]


# --- users' code that we call --------------------------------------------------------------------------


async def task_done_callback(world, act):
    task = world.loop.create_task(world.producer.send(message()))
    task.add_done_callback(act.plain)
    await task


async def another_task(world, act):
    world.spawn(act.awaited())


async def plain_listener_with_the_loop(world, act):
    world.users.give("listener", lambda: world.in_loop(act.awaited))
    await until_asked_in_loop(world, act, hear, world)


async def hook_before(world, act):
    world.hook.before = act.plain
    await carefully(world.producer.send(message()))


async def hook_after(world, act):
    world.hook.after = act.plain
    await carefully(world.producer.send(message()))


def hook_of_sends(name):
    """A hook of another producer with its own client; the first try calls it in the background."""

    async def place(world, act):
        left = iter([act.plain])

        def hook(*arguments):
            for function in left:
                function()

        async with world.module.Producer(unique("pg"), namesrv=world.namesrv, **{name: hook}) as producer:
            await carefully(producer.send(message()))

    return place


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


_BOTH = {
    "another task": another_task,
    "a plain listener, in the loop": plain_listener_with_the_loop,
    "a hook, before": hook_before,
    "a hook, after": hook_after,
    "check_forbidden": hook_of_sends("check_forbidden"),
    "before_send": hook_of_sends("before_send"),
    "after_send": hook_of_sends("after_send"),
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
    **WAITS,
    **{name: at_spot_of_loop(spot) for name, spot in SPOTS.items() if "trio" in spot.surfaces},
}
ASYNCIO = _BOTH | {"a done-callback": task_done_callback, "a handler of the loop": handler_of_the_loop}
TRIO = _BOTH
