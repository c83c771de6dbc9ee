"""What a server process asks of the interpreter, and that it is given back."""

from __future__ import annotations

import gc
import sys

import pytest

from rocketpy_broker_sim.cli.long_running import SWITCH_SECONDS, long_running


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


def test_what_comes_later_is_collected_still():
    class Ring:
        def __init__(self) -> None:
            self.me = self

    with long_running():
        before = gc.get_freeze_count()
        for _ in range(10):
            Ring()
        assert gc.collect() >= 10
        assert gc.get_freeze_count() <= before  # what is frozen may still end, but nothing is added
