"""The places in blocking code where something waits: a signal strikes there, or another thread comes."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress

from rocketpy import RocketMQError
from rocketpy.message import Message
from tests.matrix.strikes import Beside, Hole, handler, releasing, soon_after, striking
from tests.matrix.worlds import nothing, unique

__all__ = ["BLOCKING_WAITS", "carefully", "message", "slow_starter"]


def message():
    return Message("Orders", b"of the place")


def carefully(function):
    """What it ends with is free, as long as it is an answer: the act may close what it needs."""
    with suppress(RocketMQError):
        function()


@contextmanager
def struck(act, when, let_go):
    """The signal strikes in a block when a function returns, and what the block waits for comes after the act."""
    with handler(act.plain), Beside(striking(when), releasing(act, let_go)):
        yield


def signal_in_send(world, act):
    world.cluster.hold_sends()
    with struck(act, world.cluster.wait_held, world.cluster.let_go):
        carefully(lambda: world.producer.send(message()))


def signal_in_send_soon(world, act):
    world.cluster.hold_sends(2)
    full = world.module.Producer(unique("full"), client=world.client, back_pressure_for_async_send_num=2)
    ours, world.producer = world.producer, full
    with full:
        full.send_soon(message())
        full.send_soon(message())
        with struck(act, lambda: world.cluster.wait_held(2), world.cluster.let_go):
            carefully(lambda: full.send_soon(message()))
    world.producer = ours


def signal_in_result(world, act):
    world.cluster.hold_sends()
    future = world.producer.send_soon(message())
    with struck(act, world.cluster.wait_held, world.cluster.let_go):
        carefully(lambda: future.result(8))


def signal_in_start(world, act):
    with Hole() as hole:
        world.consumer = slow_starter(world, hole.address)
        with struck(act, hole.wait_guest, hole.close):
            carefully(world.consumer.start)
        carefully(world.consumer.close)


def slow_starter(world, namesrv):
    """A consumer that nobody answers: its start takes half a second, unless the name server goes away."""
    made = world.module.PushConsumer(unique("slow"), namesrv=namesrv, request_timeout=0.5)
    made.subscribe(world.heard, nothing)
    made.subscribe("Spare", nothing)
    return made


def signal_in_close(world, act):
    with _closing_slowly(world) as (close, began), struck(act, began.wait, world.cluster.let_go):
        close()


@contextmanager
def _closing_slowly(world):
    """A producer whose closing waits for a send, in the place of that of the world: how to close it, when it begins."""
    closing = world.new("Producer")
    ours, world.producer = world.producer, closing
    closing.start()
    closing.send(message())
    world.cluster.hold_sends()
    under_way = closing.send_soon(message())
    world.cluster.wait_held()
    began = threading.Event()

    def close():
        began.set()
        carefully(closing.close)

    yield close, began
    closing.close()
    assert under_way.done(), "it was closed, and left a future unanswered"
    world.producer = ours


def during_start(world, act):
    with Hole() as hole:
        world.consumer = slow_starter(world, hole.address)
        with Beside(lambda: carefully(world.consumer.start)):
            hole.wait_guest()
            act.plain()
            hole.close()
        carefully(world.consumer.close)


def during_close(world, act):
    with _closing_slowly(world) as (close, began), Beside(close), Beside(releasing(act, world.cluster.let_go)):
        soon_after(began)
        act.plain()


BLOCKING_WAITS = {
    "a signal in send": signal_in_send,
    "a signal in send_soon": signal_in_send_soon,
    "a signal in result": signal_in_result,
    "a signal in start": signal_in_start,
    "a signal in close": signal_in_close,
    "a start under way": during_start,
    "a close under way": during_close,
}
