"""The cells of the matrix of the ways in: one call from one place, and what it must not break. They run in a worker."""

from __future__ import annotations

import asyncio
import faulthandler
import functools
import gc
import sys
import time

import trio

import rocketpy.sync
from rocketpy.message import Message
from tests.matrix.acts import Act, verdict
from tests.matrix.async_places import ASYNCIO, TRIO
from tests.matrix.calls import CALLS
from tests.matrix.kept import wrongly_kept
from tests.matrix.places import BLOCKING, BUSY, HOOKED, SLOW, may_refuse, needs_of
from tests.matrix.remote_cluster import RemoteCluster
from tests.matrix.worlds import AsyncWorld, BlockingWorld

__all__ = ["PLACES", "SOME", "cell", "fits"]

SOME = {
    "Producer.send",
    "Producer.send_soon",
    "Producer.send_many",
    "Producer.queues",
    "Producer.start",
    "Producer.close",
    "PushConsumer.subscribe, plain",
    "PushConsumer.assignment",
    "PushConsumer.status",
    "PushConsumer.start",
    "PushConsumer.close",
    "MQClientInstance.close",
}
"""Calls that are tried from slow places."""

NEIGHBOUR_WITHIN = 2.8
"""Seconds for a send of the neighbour: what holds it up waits for an answer, for three seconds at the least."""

WITHOUT_MESSAGES = {"on_revoked of lite pull, async", "an iterable of queues"}
"""Where a lite pull consumer has nothing to hand out while a task waits; on the blocking surface, its caller waits."""

PLACES = {"blocking": BLOCKING, "asyncio": ASYNCIO, "trio": TRIO}


def fits(surface, place, call):
    """Return whether this cell exists."""
    if surface not in CALLS[call].surfaces:
        return False
    if place in SLOW and call not in SOME:
        return False
    # There the consumer has just given its only queue up, or paused it: to wait for a message is right.
    if CALLS[call].hungry and surface != "blocking" and place in WITHOUT_MESSAGES:
        return False
    # To wait there for another send is to wait for oneself; `send` says so, a future of the standard library cannot.
    return not (CALLS[call].waits and place in BUSY)


@functools.cache
def cluster():
    return RemoteCluster(int(sys.argv[1]))


@functools.cache
def innocent():
    """A producer of another client, which never notices anything."""
    made = rocketpy.sync.Producer("innocent", namesrv=cluster().name_server_addresses)
    made.start()
    # Freeze existing objects, so that collections are short and finalizers interrupt our code more often.
    gc.collect()
    gc.freeze()
    return made


def check_innocent(wrong):
    """Raise what is wrong, and also when the neighbour cannot send as usual."""
    cluster().heal()
    began = time.monotonic()
    try:
        innocent().send(Message("Orders", b"of the innocent"), timeout=4)
    except Exception as error:  # noqa: BLE001 - part of what is wrong
        wrong = f"{wrong}\nthe neighbour cannot send any more: {type(error).__name__}: {error}"
    if time.monotonic() - began > NEIGHBOUR_WITHIN:
        wrong = f"{wrong}\nthe neighbour's send took {time.monotonic() - began:.1f} s"
    assert not wrong, wrong.strip()


def cell(surface, place, call, way):
    """Make a call from a place, close everything, and see that a neighbour can still send."""
    innocent().send(Message("Orders", b"before"))
    needs = dict.fromkeys(CALLS[call].needs, "") | needs_of(place)
    settings = {"way": "hooked" if place in HOOKED else way, "needs": needs}
    if CALLS[call].linger is not None:
        settings["linger"] = CALLS[call].linger
    began = time.monotonic()
    if surface == "blocking":
        wrong = _blocking(call, place, settings)
    elif surface == "asyncio":
        wrong = asyncio.run(_in_loop(surface, call, place, settings))
    else:
        wrong = trio.run(_in_loop, surface, call, place, settings)
    if not wrong and time.monotonic() - began > 8:
        wrong = f"to close it all took {time.monotonic() - began:.1f} s"
    check_innocent(wrong)


def _blocking(call, place, settings):
    with BlockingWorld("blocking", cluster(), **settings) as world:
        act = Act(world, CALLS[call].make)
        BLOCKING[place](world, act)
        act.wait()
        wrong = _judged(act, call, "blocking", place)
    return wrong or _left(world, call, settings)


async def _in_loop(surface, call, place, settings):
    async with AsyncWorld(surface, cluster(), **settings) as world:
        act = Act(world, CALLS[call].make)
        await PLACES[surface][place](world, act)
        await act.wait_async(world.sleep)
        wrong = _judged(act, call, surface, place)
    return wrong or _left(world, call, settings)


def _left(world, call, settings):
    """What is wrong with what was left behind. A client that was closed first could not tell brokers any more."""
    return "" if call == "MQClientInstance.close" else wrongly_kept(world, settings["needs"])


def _judged(act, call, surface, place):
    made = CALLS[call]
    wrong = verdict(
        act,
        allowed=made.allowed,
        # A call that closes something in use, or waits for its own end, may be refused.
        may_refuse=made.closes or may_refuse(surface, place, call),
        must_refuse=made.refused,
    )
    if act.was_asked and not act.is_over:
        faulthandler.dump_traceback(all_threads=True)
        assert not wrong, wrong  # closing could only hang as well
    return wrong
