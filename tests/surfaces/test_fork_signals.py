"""A signal for the child of a fork is for nobody else, and strikes it as it would without us."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from rocketpy.aio.signals import first_signal
from rocketpy.portal import portal
from rocketpy.sync.signals import Signals
from tests.aio.running import LIMIT

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    pytest.mark.waits("real signals to forked processes"),
]
NUMBERS = (signal.SIGINT, signal.SIGTERM)


class Never:
    """An event that nobody may set."""

    def __init__(self):
        self.is_set = False

    def set(self):
        self.is_set = True


@pytest.fixture(autouse=True)
def as_at_the_start_of_a_program():
    before = {number: signal.getsignal(number) for number in NUMBERS}
    for number in NUMBERS:
        signal.signal(number, signal.SIG_DFL)
    yield
    left = {number: signal.getsignal(number) for number in NUMBERS}
    for number in NUMBERS:
        signal.signal(number, before[number])
    assert left == dict.fromkeys(NUMBERS, signal.SIG_DFL)


def of_a_struck_child(number):
    """How a child ended that got a signal as soon as it ran: minus the number, when the signal ended it."""
    child = os.fork()
    if child == 0:
        try:
            os.kill(os.getpid(), number)
            time.sleep(1)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("number", NUMBERS)
def test_in_blocking_code(number):
    event = Never()
    with Signals() as signals:
        signals.end(portal(), event)
        assert of_a_struck_child(number) == -number
        assert not event.is_set
        signal.raise_signal(number)  # ours is for us still
        while not event.is_set:
            time.sleep(0.01)


@pytest.mark.parametrize("number", NUMBERS)
def test_on_asyncio(number):
    async def main():
        ended, other = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, other.set)
        with first_signal(ended.set):
            assert of_a_struck_child(number) == -number
            os.kill(os.getpid(), signal.SIGUSR1)  # the way of others' signals still stands
            await other.wait()
            assert not ended.is_set()
            os.kill(os.getpid(), number)
            await ended.wait()
        assert loop.remove_signal_handler(signal.SIGUSR1)

    with asyncio.Runner() as runner:
        # The runner's own handler of SIGINT would be in the way of the default.
        runner.run(asyncio.wait_for(main(), LIMIT))
