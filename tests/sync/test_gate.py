"""What strikes in the middle of the gate's own lines, as a signal handler or a finalizer does, and sends too."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from rocketpy.sync.gate import Gate

pytestmark = pytest.mark.waits("threads have to arrive at a real lock")


def in_time(function: Callable[[], object]) -> None:
    """Call it in a thread that may hang without the others."""
    over = threading.Event()

    def run() -> None:
        function()
        over.set()

    threading.Thread(target=run, daemon=True).start()
    assert over.wait(10), "it waits for itself"


def struck(gate: Gate, place: str, strike: Callable[[], object]) -> None:
    """Have something strike once, at the first line of a method of the gate."""
    method = getattr(gate, place)

    def changed(*arguments: object) -> object:
        setattr(gate, place, method)
        strike()
        return method(*arguments)

    setattr(gate, place, changed)


def wait_for(what: Callable[[], object]) -> None:
    until = time.monotonic() + 10
    while not what():
        assert time.monotonic() < until
        time.sleep(0.001)


class Rooms:
    """The locks that the gate makes for those who wait: something strikes while the first one is made."""

    def __init__(self, strike: Callable[[], object]) -> None:
        self._strikes = [strike]
        self.RLock = threading.RLock

    def Lock(self) -> object:
        if self._strikes:
            self._strikes.pop()()
        return threading.Lock()


def test_a_send_in_the_middle_of_one_that_will_wait_does_not_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(1, 100)
    gate.enter("first", 1)
    entered: list[object] = []

    def strike() -> None:
        entered.append(gate.enter("nested", 1))
        threading.Timer(0.05, lambda: [gate.leave("nested"), gate.leave("first")]).start()

    monkeypatch.setattr("rocketpy.sync.gate.threading", Rooms(strike))
    in_time(lambda: entered.append(gate.enter("outer", 1)))
    assert entered == [True, True]
    assert len(gate) == 1


def test_a_send_in_the_middle_of_one_that_leaves_does_not_wait_for_it() -> None:
    gate = Gate(10, 100)
    gate.enter("small", 1)
    gate.enter("large", 99)
    waiting = threading.Thread(target=gate.enter, args=("waits", 100), daemon=True)
    waiting.start()
    wait_for(lambda: gate._waiting)
    entered: list[object] = []
    struck(gate, "_is_eased", lambda: entered.append(gate.enter("nested", 50)))
    in_time(lambda: gate.leave("small"))
    assert entered == [True]
    gate.leave("nested")
    gate.leave("large")
    waiting.join(10)
    assert not waiting.is_alive()


def test_who_leaves_in_the_middle_of_the_waking_wakes_each_once() -> None:
    gate = Gate(1, 100)
    gate.enter("first", 1)
    threads = [threading.Thread(target=gate.enter, args=(number, 0), daemon=True) for number in range(3)]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(gate._waiting) == 3)
    struck(gate, "_wake_all", gate._wake_all)
    in_time(lambda: gate.leave("first"))
    for _ in threads:
        wait_for(lambda: gate._inside)
        gate.leave(next(iter(gate._inside)))
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
