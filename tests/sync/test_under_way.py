"""What is waited for at the end, when callbacks send and answers come at any moment."""

from __future__ import annotations

import threading

import pytest

from rocketpy.config import ProducerConfig
from rocketpy.sync import at_exit
from rocketpy.sync.future import Callbacks
from rocketpy.sync.gate import Gate, Gates
from rocketpy.sync.under_way import UnderWay

LINKS = 5


class Chain(Callbacks):
    """Each callback sends a message, whose answer comes as soon as somebody has waited for the callbacks.

    It runs when nothing was found on its way, and before anybody looks again.
    """

    def __init__(self, gate: Gate) -> None:
        super().__init__("chain")
        self._gate = gate
        self.may_run = threading.Semaphore(0)
        self.ran: list[int] = []

    def link(self, number: int) -> None:
        self.may_run.acquire(timeout=10)
        self.ran.append(number)
        if number < LINKS:
            self._gate.enter(number + 1, 1)

    def wait_idle(self, timeout: float) -> bool:
        idle = super().wait_idle(timeout)
        for number in [*self._gate._inside]:
            self.submit(lambda number=number: self.link(number))
            self._gate.leave(number)
        return idle


class NothingDirect:
    """Sends that threads wait for: there are none. They are asked for once nothing else is on its way."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain

    def flush(self) -> None: ...

    def wait_calls(self, timeout: float | None) -> int:
        self._chain.may_run.release()
        return 0


def test_callbacks_whose_messages_are_answered_between_two_looks_are_waited_for() -> None:
    gate = Gate(10, 100)
    chain = Chain(gate)
    under_way = UnderWay(ProducerConfig(group="pg"), Gates(gate), NothingDirect(chain), chain)
    chain.submit(lambda: chain.link(1))
    assert under_way.wait_idle(10) == 0
    assert chain.ran == [1, 2, 3, 4, 5]
    assert under_way.due == 0
    chain.close()


class Handed:
    """A message that a thread is handing over."""

    def __init__(self, beginner: int) -> None:
        self.beginner = beginner


def test_a_message_that_this_thread_hands_over_is_not_waited_for() -> None:
    """A finalizer that interrupts this thread closes the producer, and the message waits for the finalizer."""
    gate = Gate(10, 100)
    callbacks = Callbacks("struck")
    under_way = UnderWay(ProducerConfig(group="pg"), Gates(gate), NothingDirect(Chain(gate)), callbacks)
    ours, other = Handed(threading.get_ident()), Handed(0)
    gate.enter(ours, 1)
    assert under_way.wait_idle(None) == 0
    gate.enter(other, 1)
    assert under_way.wait_idle(0.001) == 1
    threading.Timer(0.01, gate.leave, [other]).start()
    assert under_way.wait_idle(10) == 0
    assert gate.tickets() == [ours]


class Second(Gate):
    """The second gate. While it is waited for, a message goes through the first one, and leaves it a little later."""

    def __init__(self, first: Gate) -> None:
        super().__init__(10, 100)
        self._first = first

    def wait_empty(self, timeout: float | None, spared: int = 0) -> int:
        left = super().wait_empty(timeout, spared)
        first, self._first = self._first, Gate(1, 1)
        first.enter("late", 1)
        threading.Timer(0.01, first.leave, ["late"]).start()
        return left


def test_each_of_several_gates_is_waited_for_until_all_are_empty() -> None:
    first = Gate(10, 100)
    gates = Gates(first, Second(first))
    assert gates.wait_empty(None, (0, 0)) == 0
    assert len(gates) == 0


def test_messages_that_this_thread_hands_over_are_spared_in_their_gate_alone() -> None:
    sends, requests = Gate(10, 100), Gate(10, 100)
    gates = Gates(sends, requests)
    requests.enter(Handed(threading.get_ident()), 1)
    assert gates.begun_by(threading.get_ident()) == (0, 1)
    assert gates.wait_empty(None, (0, 1)) == 0
    sends.enter(Handed(0), 1)
    assert gates.wait_empty(0.001, (0, 1)) == 1


def test_closing_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("rocketpy.sync.under_way.PATIENCE", 0.001)
    gate = Gate(10, 100)
    callbacks = Callbacks("closing")
    under_way = UnderWay(ProducerConfig(group="pg"), Gates(gate), NothingDirect(Chain(gate)), callbacks)
    under_way.finish(0.01)
    assert caplog.text == "", "nothing was under way"
    gate.enter(Handed(0), 1)
    gate.enter(Handed(0), 1)
    under_way.finish(0.01)
    (record,) = caplog.records
    assert record.getMessage() == (
        "closing the producer of group pg: waiting up to 0 s for 2 messages that are not acknowledged"
    )


class SlowCallbacks:
    """A sender whose callback takes longer than the end of the process waits."""

    exit_timeout = 0.02
    due = 1

    def wait_idle(self, timeout: float) -> int:
        threading.Event().wait(max(0.0, timeout))
        return 0

    def __str__(self) -> str:
        return "producer pg"


def test_the_end_of_the_process_says_that_it_waits_for_callbacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(at_exit, "_GRACE", 0.0)
    monkeypatch.setattr(at_exit, "_PATIENCE", 0.001)
    at_exit._wait([SlowCallbacks()])
    assert capsys.readouterr().err == "rocketpy: waiting up to 0.02 s for 1 done-callback of producer pg\n"
