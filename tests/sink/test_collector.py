"""The garbage collector of a worker, tried in a process of its own: what it leaves alone would stay so here."""

from __future__ import annotations

import subprocess
import sys

import pytest

TRIAL = """
import gc, sys
from rocketpy.spark.collector import spare_collector

class Kept: pass

def cycle():
    one = Kept()
    one.itself = one

{before}
cycle()
known = len(gc.get_objects())
spare_collector()
frozen = gc.get_freeze_count()
spare_collector()
assert gc.get_freeze_count() == frozen
assert gc.isenabled() == {enabled}
cycle()
print(frozen > known // 2, sum(isinstance(one, Kept) for one in gc.get_objects()), gc.collect() > 0)
"""


def tried(before: str = "", enabled: bool = True) -> str:
    code = TRIAL.format(before=before, enabled=enabled)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.slow
def test_what_is_alive_is_left_alone_garbage_is_not_and_what_comes_later_is_collected():
    assert tried() == "True 1 True"


@pytest.mark.slow
def test_a_process_that_does_without_a_collector_is_left_as_it_is():
    assert tried("gc.disable()", enabled=False).startswith("False")


@pytest.mark.slow
def test_a_process_that_has_frozen_its_objects_itself_is_left_as_it_is():
    assert tried("marks = [[] for _ in range(10)]; gc.freeze(); own = gc.get_freeze_count()") == "True 2 True"
