"""The functions of the user's that consumers and producers of transactions call, as places on all surfaces, with what
has each of them called.
"""

from __future__ import annotations

import inspect
import itertools
import time
from contextlib import suppress

import attrs

from rocketpy import RocketMQError
from rocketpy.message import Message
from rocketpy.results import LocalTransactionState
from tests.matrix.casts import OF_PULL
from tests.matrix.worlds import nothing

__all__ = ["SPOTS", "Spot", "at_spot", "at_spot_of_loop", "until_asked", "until_asked_in_loop"]

_WITHIN = 5.0
_AGAIN = 0.05
"""Seconds until what has the function called is done once more."""
_LOOK = 0.002
EVERYWHERE = ("trio", "asyncio", "blocking")


@attrs.frozen
class Spot:
    """One function that a consumer or a producer of transactions calls.

    Attributes:
        name: of the function, as `Users` know it.
        trigger: given a world, does what has it called; the answer may have to be awaited.
        needs: the parts that the world needs for that.
        is_async: whether it is an async function.
        in_thread: whether a plain one is called in a thread where the surface has a loop, and otherwise by the caller.
        surfaces: where there is such a function.
    """

    name: str
    trigger: object
    needs: dict[str, str]
    is_async: bool = False
    in_thread: bool = True
    surfaces: tuple[str, ...] = EVERYWHERE

    @property
    def is_in_thread(self):
        """Whether it is called in a thread where the surface has a loop."""
        return self.in_thread and not self.is_async

    def give(self, world, act):
        """Have the function do the act."""
        world.users.give(self.name, act.awaited if self.is_async else act.plain)


# --- what has them called ------------------------------------------------------------------------------

_turns = itertools.count()


def hear(world):
    return world.producer.send(world.to_hear())


def hear_async(world):
    return world.producer.send(world.to_await())


def hear_value(world):
    return world.producer.send(world.to_decode())


def send_value(world):
    return world.producer.send(Message("Orders", value="of a cell"))


def wait_for_it(world):
    """It is called at an interval."""


def take_queues(world):
    world.consumer.subscribe("Extra", nothing)


def give_queues_up(world):
    world.consumer.unsubscribe(world.awaited)


def take_the_queue(world):
    world.lite.assign([world.pulled])


def give_the_queue_up(world):
    world.lite.assign([world.elsewhere])


def commit(world):
    return world.lite.commit({world.pulled: next(_turns) % 2})


def change_queues(world):
    world.lite.on_queues_changed("Watched", world.users.plain("on_queues_changed"))
    return _changed(world)


def change_queues_async(world):
    world.lite.on_queues_changed("Watched", world.users.awaited("on_queues_changed"))
    return _changed(world)


def _changed(world):
    world.cluster.create_topic("Watched", queues=1 + next(_turns) % 2)
    return world.lite.fetch_message_queues("Watched")


def replay(world):
    world.cluster.fill("%DLQ%dead", 1)
    return world.module.replay_dead_letters("dead", wanted=world.users.plain("wanted"), client=world.client)


def pause(world):
    def queues():
        world.users.do("queues")
        yield world.pulled

    return world.lite.pause(queues())


def execute(world):
    return world.transactions.send_in_transaction(Message("Orders", b"x"))


def leave_unknown(world):
    """Send half a message whose state is not known: the broker asks the checker."""
    return world.transactions.send_in_transaction(Message("Orders", b"x"), lambda *_: LocalTransactionState.UNKNOWN)


# --- from a thread, from a loop ------------------------------------------------------------------------


def until_asked(act, trigger, *arguments):
    """Do what brings the act about, again and again."""
    until = time.monotonic() + _WITHIN
    while not act.was_asked and time.monotonic() < until:
        with suppress(RocketMQError):  # the act may have closed what it takes
            trigger(*arguments)
        act.wait_asked(_AGAIN)


async def until_asked_in_loop(world, act, trigger, *arguments):
    """The same in a loop."""
    until = time.monotonic() + _WITHIN
    while not act.was_asked and time.monotonic() < until:
        with suppress(RocketMQError):
            done = trigger(*arguments)
            if inspect.isawaitable(done):
                await done
        again = time.monotonic() + _AGAIN
        while not act.was_asked and time.monotonic() < again:
            await world.sleep(_LOOK)


def at_spot(spot):
    """The place in blocking code."""

    def place(world, act):
        spot.give(world, act)
        until_asked(act, spot.trigger, world)

    return place


def at_spot_of_loop(spot):
    """The place in code on trio or asyncio."""

    async def place(world, act):
        spot.give(world, act)
        await until_asked_in_loop(world, act, spot.trigger, world)

    return place


_PUSH = {"consumer": ""}
_IN_ORDER = {"consumer": "in order"}
_BROADCAST = {"consumer": "a broadcast"}
_PULL = {"lite": ""}
_TRANSACTIONS = {"transactions": ""}
_ASYNC_TRANSACTIONS = {"transactions": "async"}
SPOTS = {
    "a plain listener": Spot("listener", hear, _PUSH),
    "an async listener": Spot("async listener", hear_async, _PUSH, is_async=True),
    "a plain listener, in order": Spot("listener", hear, _IN_ORDER),
    "an async listener, in order": Spot("async listener", hear_async, _IN_ORDER, is_async=True),
    "a plain listener of a broadcast": Spot("listener", hear, _BROADCAST),
    "an async listener of a broadcast": Spot("async listener", hear_async, _BROADCAST, is_async=True),
    "before_consume": Spot("before_consume", hear, _PUSH),
    "after_consume": Spot("after_consume", hear, _PUSH),
    "on_assigned": Spot("on_assigned", take_queues, _PUSH),
    "on_assigned, async": Spot("on_assigned", take_queues, {"consumer": "async hooks"}, is_async=True),
    "on_revoked": Spot("on_revoked", give_queues_up, _PUSH),
    "on_revoked, in order": Spot("on_revoked", give_queues_up, _IN_ORDER),
    "on_assigned of lite pull": Spot(OF_PULL + "on_assigned", take_the_queue, {"lite": "elsewhere"}),
    "on_revoked of lite pull": Spot(OF_PULL + "on_revoked", give_the_queue_up, _PULL),
    "on_revoked of lite pull, async": Spot(
        OF_PULL + "on_revoked", give_the_queue_up, {"lite": "async hooks"}, is_async=True
    ),
    "on_queues_changed": Spot("on_queues_changed", change_queues, _PULL),
    "on_queues_changed, async": Spot(
        "on_queues_changed", change_queues_async, _PULL, is_async=True, surfaces=("trio", "asyncio")
    ),
    "a strategy": Spot("strategy", take_queues, {"consumer": "a strategy"}),
    "an offset store, read": Spot("read", take_queues, {"consumer": "an offset store"}),
    "an offset store, write": Spot("write", hear, {"consumer": "an offset store"}),
    "an async offset store, write": Spot("write", hear_async, {"consumer": "an async offset store"}, is_async=True),
    "an offset store of lite pull, write": Spot("write", commit, {"lite": "an offset store"}),
    "an executor of a transaction": Spot("executor", execute, _TRANSACTIONS),
    "an async executor of a transaction": Spot("executor", execute, _ASYNC_TRANSACTIONS, is_async=True),
    "a checker": Spot("checker", leave_unknown, _TRANSACTIONS),
    "an async checker": Spot("checker", leave_unknown, _ASYNC_TRANSACTIONS, is_async=True),
    "on_statistics": Spot("on_statistics", wait_for_it, {"producer": "reporting"}),
    "on_statistics, async": Spot("on_statistics", wait_for_it, {"producer": "reporting, async"}, is_async=True),
    "on_statistics of a push consumer": Spot("on_statistics", wait_for_it, {"consumer": "reporting"}),
    "on_statistics of lite pull, async": Spot(
        "on_statistics", wait_for_it, {"lite": "reporting, async"}, is_async=True
    ),
    "on_statistics of a pull consumer": Spot("on_statistics", wait_for_it, {"puller": "reporting"}),
    "a serializer": Spot("encode", send_value, {"producer": "own values"}, in_thread=False),
    "a serializer that reads": Spot("decode", hear_value, {"consumer": "own values"}),
    "wanted": Spot("wanted", replay, {}, in_thread=False),
    "an iterable of queues": Spot("queues", pause, _PULL, in_thread=False),
}
