"""A pytest plugin: tells coverage which test runs, and notes how long each took and which did not pass.

It notes into the JSON file that `MUTANTS_NOTES` names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import coverage
import pytest

NOTES = "MUTANTS_NOTES"

_tests: dict[str, dict[str, Any]] = {}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Give the test a context of its own, from its setup to the end of its teardown."""
    measured = coverage.Coverage.current()
    assert measured is not None, "run this plugin under coverage"
    measured.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        measured.switch_context("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what the phases of a test took."""
    test = _tests.setdefault(report.nodeid, {"seconds": 0.0, "passed": True})
    test["seconds"] += report.duration
    test["passed"] &= report.passed


def pytest_sessionfinish() -> None:
    """Write the notes."""
    Path(os.environ[NOTES]).write_text(json.dumps(_tests), "utf-8")
