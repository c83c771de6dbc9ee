"""What every test shares: Hypothesis settings, how they are shared out, and that nothing is skipped under CI."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.durations import Durations, ProcessorTime
from tests.garbage import OBJECTS_A_COLLECTION
from tests.installing import fetching
from tests.once import made_once
from tests.side_by_side import WholeFiles, long_ones_first

# A busy machine is slow, not wrong: deadlines belong into the tests that are about time.
hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
USUAL = "ci" if os.environ.get("CI") else "default"
# Under CI it tries the same ones each time, as the others do there, so that a red run can be repeated.
hypothesis.settings.register_profile("quick", hypothesis.settings.get_profile(USUAL), max_examples=30)
hypothesis.settings.load_profile(USUAL)

# A shell that starts the tests in the background has them ignore Ctrl-C, nohup has them ignore the end of the terminal,
# and every process they start would too. With a handler here the tests go on, and those processes hear signals again.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, built once in a run: from the source distribution, so that both are whole."""
    (built,) = made_once(tmp_path_factory, "dist", build).glob("*.whl")
    return built


def build(out: Path) -> None:
    """Build both."""
    fetching(sys.executable, "-m", "build", "--outdir", out, ROOT, cwd=out)
    assert list(out.glob("*.tar.gz"))


_skipped: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--durations-of-files", action="store_true", help="say at the end where the time went")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.durations_of_files:
        config.pluginmanager.register(ProcessorTime())
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(Durations())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> WholeFiles:
    return WholeFiles(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = long_ones_first(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are collected: nearly everything stays, and is looked at again each time.

    Tests then have a collection per several thousand new objects. Each of them opens and closes whole clusters, whose
    objects stay until they are closed, so that looking at them more often finds little.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.set_threshold(OBJECTS_A_COLLECTION, *gc.get_threshold()[1:])


def pytest_collection_finish() -> None:
    """Take what was collected out of the garbage collector's sight: a test that collects looks at its own."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Do the same after each file: some tests bring all into sight again, and each file leaves modules behind."""
    result = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return result


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Nobody leaves a handler of Ctrl-C behind: trio sets its own only in place of Python's."""
    left = signal.getsignal(signal.SIGINT)
    if left is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        pytest.fail(f"{item.name}, or a fixture of it, left {left!r} behind as the handler of SIGINT", pytrace=False)


def _note(report: pytest.CollectReport | pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped.append(report.nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note(report)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Under CI a skipped test is a failed run: what the project claims must have been tried."""
    if os.environ.get("CI") and _skipped:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if os.environ.get("CI") and _skipped:
        terminalreporter.section("skipped, which CI does not allow")
        for nodeid in _skipped:
            terminalreporter.line(nodeid)
