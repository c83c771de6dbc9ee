"""Whose turn it is for a sharding key: one after the other, in order, from any thread, and nothing is left behind."""

from __future__ import annotations

import sys
import threading

import pytest

from rocketpy.client.sends.key_order import KeyOrder

KEY = ("T", "k")


def test_the_turns_of_a_key_come_one_after_the_other_in_the_order_of_the_calls():
    order, begun = KeyOrder(), []
    assert order.try_take(KEY)
    assert not order.try_take(KEY)
    for number in range(3):
        assert order.take(KEY, lambda number=number: begun.append(number)).waits
    assert order.try_take(("T", "other"))
    for number in range(3):
        assert begun == list(range(number))
        order.pass_on(KEY)
    assert begun == [0, 1, 2]
    order.pass_on(KEY)
    order.pass_on(("T", "other"))
    assert len(order) == 0


def test_a_turn_that_is_given_up_is_passed_over_and_one_that_has_come_is_not():
    order, begun = KeyOrder(), []
    order.try_take(KEY)
    first = order.take(KEY, lambda: begun.append(1))
    second = order.take(KEY, lambda: begun.append(2))
    assert order.leave(first)
    assert not order.leave(first)
    order.pass_on(KEY)
    assert begun == [2]
    assert not order.leave(second)
    order.pass_on(KEY)
    assert len(order) == 0


def test_an_owner_releases_what_it_has_or_waits_for_and_nothing_else():
    order, begun = KeyOrder(), []
    order.release(KEY, "nobody")
    assert order.try_take(KEY, "first")
    for number, owner in enumerate(("second", "third", None)):
        assert order.take(KEY, lambda number=number: begun.append(number), owner).waits
    assert order.owner(KEY) == "first"
    order.release(KEY, "second")  # its turn has not come
    order.release(KEY, "stranger")
    assert (begun, order.owner(KEY)) == ([], "first")
    order.release(KEY, "first")
    assert (begun, order.owner(KEY)) == ([1], "third")
    order.release(KEY, "first")
    order.release(KEY, "third")
    assert (begun, order.owner(KEY)) == ([1, 2], None)
    order.pass_on(KEY)
    assert order.owner(KEY) is None
    assert len(order) == 0


def test_a_lane_whose_turns_were_all_given_up_vanishes():
    order = KeyOrder()
    order.try_take(KEY)
    order.leave(order.take(KEY, pytest.fail))
    order.pass_on(KEY)
    assert len(order) == 0


def test_sends_that_end_as_they_begin_do_not_pile_up_on_the_stack():
    order, begun = KeyOrder(), []

    def ends_at_once(number):
        begun.append(number)
        order.pass_on(KEY)

    order.try_take(KEY)
    for number in range(10_000):
        order.take(KEY, lambda number=number: ends_at_once(number))
    order.pass_on(KEY)
    assert begun == list(range(10_000))
    assert len(order) == 0


MEANWHILE = {
    "another queues": lambda order, log: order.take(KEY, lambda: log.append("late")) or log.append("late"),
    "the lane is passed on": lambda order, log: order.pass_on(KEY) if len(order) else None,
    "a send comes and goes": lambda order, log: order.pass_on(KEY) if order.try_take(KEY) else None,
}
"""What a signal handler or a finalizer may do in the middle of a call on its own thread."""


@pytest.mark.parametrize("waiting", [0, 1], ids=["nobody waits", "somebody waits"])
@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("line", range(12))
def test_what_comes_in_while_a_send_queues_is_as_good_as_before_or_after(line, meanwhile, waiting):
    order, log = KeyOrder(), []
    order.try_take(KEY)
    for _ in range(waiting):
        order.take(KEY, lambda: log.append("waits"))
    with InterruptedAt(line, lambda: MEANWHILE[meanwhile](order, log)) as interruption:
        if order.take(KEY, lambda: log.append("mine")) is None:
            log.append("mine")
    drain(order)
    assert sorted(log) == sorted(
        ["mine"] + ["waits"] * waiting + ["late"] * (meanwhile == "another queues" and interruption.came)
    )


@pytest.mark.parametrize("waiting", [0, 1], ids=["nobody waits", "somebody waits"])
@pytest.mark.parametrize("meanwhile", ["another queues", "a send comes and goes"])
@pytest.mark.parametrize("line", range(14))
def test_what_comes_in_while_a_turn_is_passed_on_is_as_good_as_before_or_after(line, meanwhile, waiting):
    order, log = KeyOrder(), []
    order.try_take(KEY)
    for _ in range(waiting):
        order.take(KEY, lambda: log.append("waits"))
    with InterruptedAt(line, lambda: MEANWHILE[meanwhile](order, log)) as interruption:
        order.pass_on(KEY)
    drain(order)
    assert sorted(log) == sorted(["waits"] * waiting + ["late"] * (meanwhile == "another queues" and interruption.came))


def drain(order):
    """Let everybody through who is still there; nobody may be left whom nothing would let through."""
    for _ in range(5):
        if len(order):
            order.pass_on(KEY)
    assert len(order) == 0


class InterruptedAt:
    """Calls a function once, before the given line that runs in the key order."""

    def __init__(self, line, function):
        self.left, self.function, self.came = line, function, False

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self.trace)
        return self

    def __exit__(self, *_):
        sys.settrace(self.before)

    def trace(self, frame, event, _):
        if not frame.f_code.co_filename.endswith("key_order.py"):
            return None
        if event == "line":
            if self.left == 0:
                self.left, self.came = -1, True
                sys.settrace(None)
                self.function()
                return None
            self.left -= 1
        return self.trace


def test_threads_share_a_lane_without_overlap_or_loss():
    order, inside, ended, most = KeyOrder(), [], [], []
    rounds, threads = 300, 6

    def work(number):
        came = threading.Semaphore(0)
        for turn in range(rounds):
            if order.take(KEY, came.release) is not None:
                assert came.acquire(timeout=60)
            inside.append(number)
            most.append(len(inside))
            ended.append((number, turn))
            inside.remove(number)
            order.pass_on(KEY)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
    finally:
        sys.setswitchinterval(before)
    assert max(most) == 1
    assert len(ended) == rounds * threads
    assert len(order) == 0
