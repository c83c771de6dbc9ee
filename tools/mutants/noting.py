"""A pytest plugin: tells coverage which test runs, and notes how long each took and which did not pass.

It notes into the JSON file that `MUTANTS_NOTES` names. What functools.cache keeps is forgotten before each test:
otherwise the lines of a cached function, and of all that it calls, would name its first caller alone.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Collection, Generator
from pathlib import Path
from types import ModuleType
from typing import Any

import coverage
import pytest

NOTES = "MUTANTS_NOTES"

_tests: dict[str, dict[str, Any]] = {}
_caches: dict[str, tuple[ModuleType, list[functools._lru_cache_wrapper[Any]]]] = {}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Give the test a context of its own, from its setup to the end of its teardown."""
    measured = coverage.Coverage.current()
    assert measured is not None, "run this plugin under coverage"
    packages = measured.get_option("run:source")
    assert isinstance(packages, list), "name the packages in the settings of coverage"
    _forget_results(packages)
    measured.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        measured.switch_context("")


def _forget_results(packages: Collection[str]) -> None:
    """Empty the caches of all functions at the top of modules that are imported by now."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in packages:
            continue
        if name not in _caches or _caches[name][0] is not module:
            found = [each for each in vars(module).values() if isinstance(each, functools._lru_cache_wrapper)]
            _caches[name] = module, found
        for cache in _caches[name][1]:
            cache.cache_clear()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what the phases of a test took."""
    test = _tests.setdefault(report.nodeid, {"seconds": 0.0, "passed": True})
    test["seconds"] += report.duration
    test["passed"] &= report.passed


def pytest_sessionfinish() -> None:
    """Write the notes."""
    Path(os.environ[NOTES]).write_text(json.dumps(_tests), "utf-8")
