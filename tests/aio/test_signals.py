"""run_forever and signals: what handled them before handles them afterwards, and meanwhile nobody else hears of it."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from rocketpy.aio import PushConsumer
from rocketpy.aio.signals import first_signal
from tests.aio.running import LIMIT

pytestmark = pytest.mark.waits("real signals to a loop of asyncio")

LOOPS = {"asyncio": asyncio.new_event_loop}
try:
    import uvloop
except ImportError:
    pass
else:
    LOOPS["uvloop"] = uvloop.new_event_loop


@pytest.fixture(params=LOOPS)
def run(request):
    def run(main):
        with asyncio.Runner(loop_factory=LOOPS[request.param], debug=True) as runner:
            return runner.run(asyncio.wait_for(main(), LIMIT))

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)}
    yield run
    assert {number: signal.getsignal(number) for number in before} == before


async def opened(consumer):
    while consumer.status().state != "open":  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def arrival(event):
    async with asyncio.timeout(10):
        await event.wait()
    event.clear()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_handler_of_the_loop_is_there_again(namesrv, run, number):
    async def main():
        loop, struck, other = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        loop.add_signal_handler(number, struck.set)
        loop.add_signal_handler(signal.SIGUSR1, other.set)
        consumer = PushConsumer("handlers", namesrv=namesrv)
        forever = asyncio.create_task(consumer.run_forever())
        await opened(consumer)
        os.kill(os.getpid(), signal.SIGUSR1)
        await arrival(other)  # those of other signals work meanwhile
        os.kill(os.getpid(), number)
        await forever
        assert not struck.is_set()
        os.kill(os.getpid(), number)
        await arrival(struck)
        os.kill(os.getpid(), signal.SIGUSR1)
        await arrival(other)
        assert loop.remove_signal_handler(number)
        assert loop.remove_signal_handler(signal.SIGUSR1)

    run(main)


def test_a_second_signal_strikes_as_usual_while_it_closes(namesrv, run):
    async def main():
        loop, struck, first = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, struck.set)
        consumer = PushConsumer("second", namesrv=namesrv)
        aclose = consumer._close

        async def slow(error):
            first.set()
            await arrival(struck)
            await aclose(error)

        consumer._close = slow
        forever = asyncio.create_task(consumer.run_forever())
        await opened(consumer)
        os.kill(os.getpid(), signal.SIGTERM)
        await arrival(first)
        os.kill(os.getpid(), signal.SIGTERM)
        await forever
        assert loop.remove_signal_handler(signal.SIGTERM)

    run(main)


def test_a_handler_of_the_interpreter_is_there_again(namesrv, run):
    struck = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: struck.append(number))
    handler = signal.getsignal(signal.SIGTERM)
    try:

        async def main():
            consumer = PushConsumer("interpreter", namesrv=namesrv)
            forever = asyncio.create_task(consumer.run_forever())
            await opened(consumer)
            os.kill(os.getpid(), signal.SIGTERM)
            await forever
            assert signal.getsignal(signal.SIGTERM) is handler
            assert not struck
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0)
            assert struck == [signal.SIGTERM]

        run(main)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_handler_that_was_set_meanwhile_stays(namesrv, run):
    async def main():
        loop, struck = asyncio.get_running_loop(), asyncio.Event()
        consumer = PushConsumer("meanwhile", namesrv=namesrv)
        forever = asyncio.create_task(consumer.run_forever())
        await opened(consumer)
        loop.add_signal_handler(signal.SIGTERM, struck.set)
        await consumer.aclose()
        await forever
        os.kill(os.getpid(), signal.SIGTERM)
        await arrival(struck)
        assert loop.remove_signal_handler(signal.SIGTERM)

    run(main)


def test_one_signal_ends_all_who_run_forever_in_a_loop(namesrv, run):
    async def main():
        loop, struck = asyncio.get_running_loop(), asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, struck.set)
        for _ in range(2):  # also after others have listened
            consumers = [PushConsumer(f"group{number}", namesrv=namesrv) for number in range(3)]
            forever = asyncio.gather(*(consumer.run_forever() for consumer in consumers))
            for consumer in consumers:
                await opened(consumer)
            await consumers[0].aclose()  # who goes first takes nothing away from the others
            os.kill(os.getpid(), signal.SIGTERM)
            await forever
        assert not struck.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        await arrival(struck)
        assert loop.remove_signal_handler(signal.SIGTERM)

    run(main)


def test_signals_strike_when_the_loop_was_closed_with_somebody_listening_in_it():
    struck = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: struck.append(number))
    try:
        loop = asyncio.new_event_loop()
        listening = first_signal(lambda: None)

        async def listen():
            listening.__enter__()

        loop.run_until_complete(listen())
        loop.close()
        os.kill(os.getpid(), signal.SIGTERM)
        assert struck == [signal.SIGTERM]
        listening.__exit__(None, None, None)
    finally:
        signal.signal(signal.SIGTERM, before)
