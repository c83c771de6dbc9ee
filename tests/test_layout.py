"""The rules of this tree that no linter knows: short files, counted shields, one clock. One rule, one test."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.rules import (
    MAX_EXAMPLE_LINES,
    MAX_FUNCTION_LINES,
    MAX_LINES,
    Source,
    cancelled_caught,
    conditional_asserts,
    left_to_do,
    listed,
    long_example,
    long_file,
    long_functions,
    marks_told_wrongly,
    no_docstring,
    rare_words,
    shields,
    told,
    uncollected,
    untold_fields,
)
from tools.marked import marked

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("rocketpy", "rocketpy_broker_sim")
FOLDERS = (*PACKAGES, "pyspark_rocketmq", "examples", "benchmarks", "tools", "tests", "docs")

# A shield keeps closing code alive under cancellation, always with a deadline. Files that have one are listed
# here with their number, so that a new one is a decision.
SHIELDS: dict[str, int] = {
    "rocketpy/aio/bridge.py": 1,
    "rocketpy/aio/listeners.py": 1,
    "rocketpy/client/instance.py": 2,
    "rocketpy/client/reports.py": 1,
    "rocketpy/consumer/background.py": 2,
    "rocketpy/admin/dead_letters.py": 1,
    "rocketpy/consumer/lite/running.py": 1,
    "rocketpy/consumer/pull_consumer.py": 1,
    "rocketpy/consumer/running.py": 1,
    "rocketpy/producer/running.py": 1,
    "rocketpy/remoting/server.py": 1,
    "rocketpy/services.py": 1,
    "rocketpy/sync/listeners.py": 1,
    "rocketpy/trace/dispatcher.py": 1,
    "rocketpy_broker_sim/broker/opening.py": 1,
    "rocketpy_broker_sim/broker/subsystems/naming.py": 1,
    "rocketpy_broker_sim/broker/subsystems/port.py": 1,
}

# Waiting for the end of what was cancelled already; telling a listener's own cancellation from that of its task.
ASYNCIO_CANCELLED: dict[str, int] = {
    "rocketpy/aio/bridge.py": 1,
    "rocketpy/aio/listeners.py": 1,
}


# Files of tests that pytest is given by name.
GIVEN_BY_NAME = {"tests/wheel_plugin_smoke.py"}


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    """All of our Python."""
    paths = [ROOT / "dev", *sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))]
    return [Source.read(path, ROOT) for path in paths]


@pytest.fixture(scope="module")
def pages() -> list[Source]:
    """All of our prose: the docs, and what lies beside the code."""
    paths = [*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))]
    return [Source.read(path, ROOT) for path in sorted(paths)]


@pytest.fixture(scope="module")
def library(sources: list[Source]) -> list[Source]:
    """What goes to users."""
    return [source for source in sources if source.name.startswith(tuple(f"{package}/" for package in PACKAGES))]


def test_every_file_is_looked_at(sources: list[Source], library: list[Source]) -> None:
    assert {source.name.partition("/")[0] for source in sources} == {"dev", *FOLDERS}
    assert {source.name.partition("/")[0] for source in library} == {*PACKAGES}
    assert len(library) == sum(1 for package in PACKAGES for _ in (ROOT / package).rglob("*.py")) > 300


def test_no_other_code_stands_at_the_top() -> None:
    """A look at the tree shows first what it is."""
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    listed(
        sorted(packages - set(FOLDERS)) + sorted(path.name for path in ROOT.glob("*.py")),
        f"code at the top of the tree; put it into one of {', '.join(FOLDERS)}",
    )
    assert packages == set(FOLDERS) - {"docs"}


def test_no_file_is_longer_than_500_lines(sources: list[Source]) -> None:
    listed(
        (each for source in sources for each in long_file(source)),
        f"longer than {MAX_LINES} lines; split it by ideas, one a file",
    )


def test_examples_of_one_file_are_short(sources: list[Source]) -> None:
    """Those in folders are programs of several files."""
    found = [source for source in sources if source.name.startswith("examples/") and source.name.count("/") == 1]
    assert found
    listed(
        (each for source in found for each in long_example(source)),
        f"longer than {MAX_EXAMPLE_LINES} lines; show one thing, or make two examples of it",
    )


@pytest.mark.slow
def test_functions_are_short(library: list[Source]) -> None:
    listed(
        (each for source in library for each in long_functions(source)),
        f"longer than {MAX_FUNCTION_LINES} lines; give parts of it names of their own",
    )


def test_every_module_says_what_it_is(library: list[Source]) -> None:
    listed((each for source in library for each in no_docstring(source)), "no docstring; say what the module is for")


def test_every_field_of_a_named_tuple_says_what_it_holds(library: list[Source]) -> None:
    listed(
        (each for source in library for each in untold_fields(source)),
        "nothing says what it holds; put a docstring with its unit or form below the field",
    )


@pytest.mark.slow
def test_shields_are_counted(library: list[Source]) -> None:
    found = Counter({source.name: shields(source) for source in library})
    listed(
        (f"{name} has {found[name]}, not {SHIELDS.get(name, 0)}" for name in sorted({*+found, *SHIELDS})
         if found[name] != SHIELDS.get(name, 0)),
        "shields that SHIELDS does not list; do without, or give it a deadline and count it there",
    )  # fmt: skip


def test_cancellation_is_never_caught(library: list[Source]) -> None:
    """But for asyncio's, in the places that are listed and counted."""
    caught = [(where, kind) for source in library for where, kind in cancelled_caught(source)]
    expected = Counter(where.partition(":")[0] for where, kind in caught if kind == "asyncio.CancelledError")
    listed(
        (
            f"{where} except {kind}"
            for where, kind in caught
            if kind != "asyncio.CancelledError" or where.partition(":")[0] not in ASYNCIO_CANCELLED
        ),
        "cancellation belongs to the code that asked for it; let it pass",
    )
    assert expected == ASYNCIO_CANCELLED, "count them in ASYNCIO_CANCELLED"


def test_nothing_is_left_to_do(library: list[Source]) -> None:
    """No stub, and no mark of work put off, stands in the library."""
    listed((each for source in library for each in left_to_do(source)), "work put off; do it, or open an issue")


@pytest.mark.slow
def test_asserts_compare_in_both_branches(sources: list[Source]) -> None:
    listed(
        (each for source in sources for each in conditional_asserts(source)),
        "`assert a == b if c else d` compares nothing unless c; put parentheses around what is compared, as in "
        "`assert a == (b if c else d)`",
    )


@pytest.mark.slow
def test_texts_use_words_that_people_say(sources: list[Source], pages: list[Source]) -> None:
    """In docs, docstrings, comments and error texts. RARE_WORDS of `tests/rules.py` is the list."""
    assert {"README.md", "docs/design.md", "tests/golden/README.md"} <= {page.name for page in pages}
    listed((each for text in (*sources, *pages) for each in rare_words(text)), "words that nobody says; write instead")


def test_every_test_is_collected(sources: list[Source]) -> None:
    """Those among the examples belong to their readers; `tests/examples` runs them."""
    found = {source.name: list(uncollected(source)) for source in sources if not source.name.startswith("examples/")}
    listed(
        (each for name, those in found.items() if name not in GIVEN_BY_NAME for each in those),
        "pytest collects tests from tests/**/test_*.py alone; rename the file, or the function if it is no test",
    )
    assert all(found[name] for name in GIVEN_BY_NAME), "take what has no tests out of GIVEN_BY_NAME"


@pytest.mark.slow
def test_marks_have_their_reasons(sources: list[Source], settings: dict[str, Any]) -> None:
    marks = told(settings["pytest"]["ini_options"]["markers"])
    assert marks["waits"] == ["why"]
    listed(
        (each for source in sources for each in marks_told_wrongly(source, marks)),
        "the markers in pyproject.toml say what each takes; give the missing reason, or write it as a comment",
    )


def test_marks_by_which_files_are_chosen_are_seen_in_them(sources: list[Source]) -> None:
    """Tests in a part of a run of their own are collected from the files that `tools.marked` finds."""
    listed(
        (
            f"{source.name} has mark.{marker}"
            for source in sources
            if source.name.startswith("tests/") and not Path(source.name).name.startswith(("test_", "conftest"))
            for marker in ("quiet", "alone", "spark", "interop")
            if f"mark.{marker}" in source.text
        ),
        "a run of these tests would pass them by; write the marker in the file of the tests, or in a conftest",
    )
    chosen = {*marked(ROOT, "quiet"), *marked(ROOT, "alone"), *marked(ROOT, "spark")}
    expected = {"tests/spark", "tests/wire/test_json_limits.py"}
    assert {*expected, "tests/hostile/test_codes.py", "tests/hostile/test_crowds.py"} <= chosen


def test_a_module_without_a_layer_is_sent_to_the_list_of_layers(settings: dict[str, Any]) -> None:
    contracts = [each for each in settings["importlinter"]["contracts"] if each.get("exhaustive")]
    assert len(contracts) == len(PACKAGES)
    assert all("pyproject.toml" in contract["broken_contract_guidance"] for contract in contracts)


def test_packages_are_typed() -> None:
    listed(
        (f"{package}/py.typed" for package in PACKAGES if not (ROOT / package / "py.typed").exists()),
        "type checkers need this empty file; put it back",
    )
