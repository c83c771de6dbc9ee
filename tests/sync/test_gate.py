"""When those who wait are woken; and what strikes in the middle of the gate's own lines, as a signal handler or a
finalizer does, and sends too."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from rocketpy.sync.gate import Gate


class Watched(Gate):
    """A gate that says when somebody begins to wait, and in which something strikes at a place, once."""

    def __init__(self, count: int, size: int) -> None:
        super().__init__(count, size)
        self.waits = threading.Semaphore(0)
        self._waiting = Room(self)
        self.strikes: dict[str, Callable[[], object]] = {}

    def struck(self, place: str) -> None:
        self.strikes.pop(place, lambda: None)()

    def _is_eased(self) -> bool:
        self.struck("leaving")
        return super()._is_eased()


class Room(deque[Any]):
    """Where those are who wait."""

    def __init__(self, gate: Watched) -> None:
        super().__init__()
        self._gate = gate

    def append(self, one: Any) -> None:
        super().append(one)
        self._gate.waits.release()

    def popleft(self) -> Any:
        self._gate.struck("waking")
        return super().popleft()


class Started:
    """A call in a thread of its own, which may hang without the others."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._over = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        self.result = self._function()
        self._over.set()

    def ended(self) -> object:
        assert self._over.wait(10), "it waits for itself"
        return self.result


def arrived(gate: Watched, count: int) -> None:
    assert all(gate.waits.acquire(timeout=10) for _ in range(count))


def test_a_send_in_the_middle_of_one_that_will_wait_does_not_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Watched(1, 100)
    gate.enter("first", 1)
    entered: list[object] = []
    gate.strikes["queueing"] = lambda: entered.append(gate.enter("nested", 1))

    class Threading:
        """Its locks are where those wait who come too early; the first is struck while it is made."""

        def Lock(self) -> object:
            gate.struck("queueing")
            return threading.Lock()

    monkeypatch.setattr("rocketpy.sync.gate.threading", Threading())
    outer = Started(lambda: gate.enter("outer", 1))
    arrived(gate, 2)
    gate.leave("nested")
    gate.leave("first")
    assert outer.ended()
    assert entered == [True]
    assert len(gate) == 1


def test_a_send_in_the_middle_of_one_that_leaves_does_not_wait_for_it() -> None:
    gate = Watched(10, 100)
    gate.enter("small", 1)
    gate.enter("large", 99)
    waiting = Started(lambda: gate.enter("waits", 100))
    arrived(gate, 1)
    entered: list[object] = []
    gate.strikes["leaving"] = lambda: entered.append(gate.enter("nested", 50))
    Started(lambda: gate.leave("small")).ended()
    assert entered == [True]
    gate.leave("nested")
    gate.leave("large")
    assert waiting.ended()


def test_what_strikes_a_waking_and_wakes_all_wakes_each_once() -> None:
    gate = Watched(10, 100)
    gate.enter("first", 100)
    waiting = [Started(lambda number=number: gate.enter(number, 1)) for number in range(3)]
    arrived(gate, 3)
    gate.strikes["waking"] = gate._wake_all
    Started(lambda: gate.leave("first")).ended()
    assert [each.ended() for each in waiting] == [True] * 3
    assert len(gate) == 3


@pytest.mark.parametrize(
    ("count", "size"), [(8, 1000), (1000, 80)], ids=["as many messages as may be", "as many bytes as may be"]
)
def test_those_who_wait_are_woken_when_a_quarter_is_free_and_not_before(count: int, size: int) -> None:
    gate = Watched(count, size)
    for number in range(8):
        gate.enter(number, 10)
    waiting = [Started(lambda name=name: gate.enter(name, 10)) for name in ("one", "other")]
    arrived(gate, 2)
    woken: list[object] = []
    gate.strikes["waking"] = lambda: woken.append(True)
    gate.leave(0)
    assert (woken, len(gate)) == ([], 7)
    gate.leave(1)
    assert [each.ended() for each in waiting] == [True, True]
    assert len(gate) == 8
