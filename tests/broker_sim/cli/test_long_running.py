"""What a server process asks of the interpreter, and that it is given back."""

from __future__ import annotations

import gc
import sys

import pytest

from rocketpy_broker_sim.cli.long_running import SWITCH_SECONDS, long_running


@pytest.fixture(autouse=True)
def nothing_is_set_aside():
    """As in a process that has just started; the tests that were collected are set aside again."""
    gc.unfreeze()
    yield
    gc.freeze()


def test_settings_hold_while_it_serves_and_are_given_back():
    before = sys.getswitchinterval(), gc.get_freeze_count()
    with long_running():
        assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
        assert gc.get_freeze_count() > 1000
    assert (sys.getswitchinterval(), gc.get_freeze_count()) == before


def test_settings_are_given_back_when_it_fails():
    before = sys.getswitchinterval()
    with pytest.raises(ValueError, match="broken"), long_running():
        raise ValueError("broken")
    assert sys.getswitchinterval() == before


class Ring:
    """Something that only a collection can free."""

    def __init__(self) -> None:
        self.me = self


def is_looked_through(thing: object) -> bool:
    """Whether the next collection may look at it: what is set aside is not among these objects."""
    return any(each is thing for each in gc.get_objects())


@pytest.fixture
def by_hand():
    """Collections only where a test asks for them."""
    gc.disable()
    yield
    gc.enable()


def test_what_comes_later_is_collected_still():
    with long_running():
        for _ in range(10):
            Ring()
        assert gc.collect() >= 10


def test_a_full_collection_goes_through_what_has_come_since_the_last(by_hand):
    with long_running():
        held = []
        for _ in range(3):
            held += [Ring() for _ in range(1_000)]
            assert is_looked_through(held[-1])
            gc.collect()
            assert not any(is_looked_through(each) for each in (held[0], held[-1]))
    assert gc.get_freeze_count() == 0


@pytest.mark.slow
def test_when_much_has_been_set_aside_all_is_looked_through_again(by_hand, monkeypatch):
    in_use = 1_000_000
    monkeypatch.setattr(sys, "getallocatedblocks", lambda: in_use)
    with long_running():
        held = [Ring() for _ in range(10_000)]
        gc.collect()
        held.clear()  # garbage now, but set aside
        in_use = 2_300_000
        assert gc.collect() < 10_000
        in_use += 1
        gc.collect()
        assert gc.get_freeze_count() == 0
        assert gc.collect() >= 10_000
        assert gc.get_freeze_count() > 0


def test_nothing_is_set_aside_where_nobody_counts_what_is_in_use(by_hand, monkeypatch):
    monkeypatch.setattr(sys, "getallocatedblocks", lambda: 0)
    with long_running():
        before = gc.get_freeze_count()
        held = [Ring() for _ in range(1_000)]
        gc.collect()
        assert is_looked_through(held[-1])
        assert gc.get_freeze_count() <= before  # what was frozen may be gone
