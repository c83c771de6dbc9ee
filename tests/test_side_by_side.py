"""How tests are shared out, and where their time is said to go."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from tests.durations import Durations, ProcessorTime
from tests.side_by_side import TOGETHER, long_ones_first, scope_of


@pytest.mark.parametrize(
    ("nodeid", "scope"),
    [
        ("tests/aio/test_producer.py::test_one[a::b]", "tests/aio/test_producer.py"),
        ("tests/interop/test_tls.py::test_one", "tests/interop/"),
        ("tests/interop/stores/test_cleaned.py::test_one", "tests/interop/stores/"),
        ("tests/interop/deep/test_two.py::test_one", "tests/interop/"),
        ("tests/interop/test_tls.py::test_one[5.3.3-ours]", "tests/interop/"),
        ("tests/interop/test_tls.py::test_one[4.9.7]", "tests/interop/[4.9.7]"),
        ("tests/interop/test_tls.py::test_one[java by ours-4.9.7-on]", "tests/interop/[4.9.7]"),
        ("tests/interop/stores/test_two.py::test_one[4.9.7-ours]", "tests/interop/stores/[4.9.7]"),
        ("tests/interop/test_tls.py::test_one[14.9.7]", "tests/interop/"),
        ("tests/aio/test_producer.py::test_one[4.9.7]", "tests/aio/test_producer.py"),
        ("tests/spark/test_writer_apache.py::test_one[4.9.7]", "tests/spark/"),
        ("tests/test_interop.py::test_one", "tests/test_interop.py"),
    ],
)
def test_files_stay_whole_and_so_do_folders_that_share_servers(nodeid: str, scope: str) -> None:
    assert scope_of(nodeid) == scope


def test_long_ones_come_first_and_the_others_keep_their_order() -> None:
    names = [
        "tests/wire/test_b.py::x",
        "tests/kill/test_a.py::x",
        "tests/wire/test_a.py::x",
        f"{TOGETHER[0]}test_a.py::x",
    ]
    items = [cast(Any, SimpleNamespace(nodeid=name)) for name in names]
    ordered = [item.nodeid for item in long_ones_first(items)]
    assert ordered == [names[3], names[1], names[0], names[2]]


def report(nodeid: str, when: str, duration: float) -> Any:
    return SimpleNamespace(nodeid=nodeid, when=when, duration=duration, processor_seconds=duration / 4)


def test_seconds_are_those_of_all_phases_and_tests_are_counted_once() -> None:
    durations, out = Durations(), StringIO()
    for nodeid in ("tests/wire/test_a.py::x", "tests/wire/test_a.py::y", "tests/aio/test_b.py::x"):
        for when, seconds in (("setup", 1.0), ("call", 2.5), ("teardown", 0.5)):
            durations.pytest_runtest_logreport(report(nodeid, when, seconds))
    Console(file=out, width=100).print(durations.table("file", most=1))
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert lines[1] == ["tests/wire/test_a.py", "2", "8.0", "66.7%", "2.0", "66.7%"]
    assert lines[2] == ["1", "more", "1", "4.0", "33.3%", "1.0", "33.3%"]
    assert lines[3] == ["all", "3", "12.0", "100.0%", "3.0", "100.0%"]


def test_processor_time_is_that_of_a_test_and_of_processes_whose_end_it_sees() -> None:
    watch, seconds = ProcessorTime(), []
    busy = "import time\nwhile time.process_time() < 0.2: pass"
    for work in (lambda: subprocess.run([sys.executable, "-c", busy], check=True), lambda: None):
        noting = watch.pytest_runtest_makereport()
        next(noting)
        work()
        with pytest.raises(StopIteration) as end:
            noting.send(report("tests/test_a.py::x", "call", 1.0))
        seconds.append(end.value.value.processor_seconds)
    assert seconds[0] >= 0.15, seconds  # the system counts in ticks of ten milliseconds
    assert seconds[1] <= 0.05, seconds
