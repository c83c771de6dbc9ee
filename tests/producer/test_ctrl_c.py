"""Ctrl-C in the task that sends, when its message was just registered: it ends this send, and harms no other."""

from __future__ import annotations

import signal
import threading

import pytest
import trio
import trio.testing

from rocketpy.message import Message
from rocketpy.producer.accumulator import Accumulator
from rocketpy.remoting.in_flight import InFlight
from tests.producer.brokers import SendBroker

KINDS = {
    "prebuilt": (InFlight, "enter", {}),
    "signed": (InFlight, "enter", {"access_key": "key", "secret_key": "secret"}),
    "lingering": (Accumulator, "drop_in", {"linger": 0.01}),
}


def is_of_this_test():
    """Clusters of other tests run in other threads."""
    return threading.current_thread() is threading.main_thread()


@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_between_registering_and_waiting_leaves_nothing_that_wakes_the_task_later(opened, monkeypatch, kind):
    place, name, settings = KINDS[kind]
    real, struck = getattr(place, name), []

    def strike(*args, **kwargs):
        result = real(*args, **kwargs)
        if not struck and is_of_this_test():
            struck.append(trio.lowlevel.currently_ki_protected())
            signal.raise_signal(signal.SIGINT)
        return result

    async def main():
        async with opened(SendBroker(), **settings) as (producer, _):
            await producer.send(Message("T", b"connects"))
            monkeypatch.setattr(place, name, strike)
            with pytest.raises(KeyboardInterrupt):
                await producer.send(Message("T", b"struck"))
            await trio.sleep(1)
            assert (await producer.send(Message("T", b"next"))).queue.topic == "T"
            assert not any(len(each.link.in_flight) for each in producer.client.pool.connections())

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert struck == [True]


def test_ctrl_c_while_a_frame_of_send_many_is_sent_reaches_its_caller(opened, monkeypatch):
    real, struck, failures = InFlight.add, [], []

    def strike(*args):
        real(*args)
        if not struck and is_of_this_test():
            struck.append(trio.lowlevel.currently_ki_protected())
            signal.raise_signal(signal.SIGINT)

    async def main():
        async with opened(SendBroker()) as (producer, _):
            await producer.send(Message("T", b"connects"))
            monkeypatch.setattr(InFlight, "add", strike)
            with pytest.raises(KeyboardInterrupt):
                await producer.send_many([Message("T", b"struck")], on_failure=failures.append)
            await trio.sleep(1)
            assert (await producer.send_many([Message("T", b"next")])).messages == 1
            connections = producer.client.pool.connections()
            assert not any(len(each.link.in_flight) or each.link.transport.pending for each in connections)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert struck == [True]
    assert failures == []


def test_ctrl_c_while_a_oneway_message_is_written_leaves_the_connection_as_good_as_before(opened, monkeypatch):
    real, struck = trio.lowlevel.reschedule, []

    def strike(*args):
        if not struck and is_of_this_test():
            struck.append(trio.lowlevel.currently_ki_protected())
            signal.raise_signal(signal.SIGINT)
        real(*args)

    async def main():
        async with opened(SendBroker()) as (producer, _):
            await producer.send(Message("T", b"connects"))
            await trio.sleep(1)
            monkeypatch.setattr(trio.lowlevel, "reschedule", strike)
            with pytest.raises(KeyboardInterrupt):
                await producer.send_oneway(Message("T", b"struck"))
            assert (await producer.send(Message("T", b"next"))).queue.topic == "T"

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert struck == [True]


@pytest.mark.parametrize("step", ["try_take", "take", "pass_on"])
@pytest.mark.parametrize("call", ["send", "send_oneway"])
def test_ctrl_c_leaves_the_lane_of_a_sharding_key_to_the_next_send(opened, monkeypatch, call, step):
    key, message, struck = ("T", "k"), Message("T", b"x", sharding_key="k"), []

    async def send_once(producer):
        await getattr(producer, call)(message)
        await trio.lowlevel.checkpoint()

    async def main():
        async with opened(SendBroker()) as (producer, _):
            await producer.send(Message("T", b"connects"))
            order = producer.outside.core.order
            real = getattr(order, step)
            holds = step == "take" and order.try_take(key)

            def strike(*args):
                struck.append(trio.lowlevel.currently_ki_protected())
                result = real(*args)
                signal.raise_signal(signal.SIGINT)
                return result

            with monkeypatch.context() as patch:
                patch.setattr(order, step, strike)
                with pytest.raises(KeyboardInterrupt):
                    await send_once(producer)
            if holds:
                order.pass_on(key)
            assert len(order) == 0
            assert (await producer.send(message)).queue.topic == "T"

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert struck == [True]


@pytest.mark.parametrize("settings", [{}, {"linger": 0.01}], ids=["at once", "lingering"])
async def test_ctrl_c_strikes_a_selector(autojump_clock, opened, settings):
    protected = []

    def select(queues, message, arg):
        protected.append(trio.lowlevel.currently_ki_protected())
        return queues[0]

    async with opened(SendBroker(), **settings) as (producer, _):
        await producer.send(Message("T", b"x"), selector=select)
    assert protected == [False]
